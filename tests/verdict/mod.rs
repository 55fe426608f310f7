//! Verdicts on real-looking objects: each rule of ARCHITECTURE.md's evidence table with its counterexample.

mod proofs;
mod records;
mod rules;
pub mod scene;
mod soundness;
pub mod world;
