//! The real node: the kubelet reads, and the containers say what.

use super::story::Story;
use serde_json::Value;

impl Story<'_> {
    pub fn listen(&mut self, _uid: &str, _object: &Value) -> bool {
        todo!()
    }

    pub fn crash_real(&mut self, _uid: &str) {
        todo!()
    }
}
