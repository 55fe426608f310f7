//! What the tests need around the product: real control planes, a raw client, and a played node.

pub mod client;
pub mod control_plane;
pub mod hop;
pub mod incident;
pub mod kubelet;
pub mod node;
pub mod player;
pub mod product;
pub mod proxy;
pub mod rights;
pub mod rust;
pub mod schema;
pub mod terminal;
pub mod verbs;
