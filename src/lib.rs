//! kubectl-saferollback: rollbacks whose configuration is known.
//!
//! One question is behind everything here: what will the next Pod of a revision read, and is it what the revision ran
//! with? The answer is made in stages, each a function from what the one before it found. `history` stops at the
//! verdict, `check` at the policy, `undo` runs them all.
//!
//! 1. **target**: what was typed, [`core::workload::Target`], looked up by [`run::observe`], which does all reads.
//! 2. **history**: ReplicaSets to ordered revisions, [`core::history::read`].
//! 3. **references**: what a template names, and when it is read, [`core::references::extract`].
//! 4. **evidence**: what bounds each read, [`core::reads::spans`].
//! 5. **verdict**: does a new Pod read what the revision read? [`core::verdict::judge`].
//! 6. **recovery**: contents that could be bound, best first, [`core::recovery::candidates`]; older ones come from
//!    [`run::travel`].
//! 7. **policy**: keep, pin or refuse, [`core::policy::decide`].
//! 8. **plan**: everything that would be done, or the refusal, [`core::plan::make`].
//! 9. **snapshot**: immutable ConfigMaps named by their content, [`core::snapshot::of`].
//! 10. **patch**: the one write to the workload, with preconditions, [`core::patch::workload`].
//! 11. **watch**: [`run::wait`], by the rules of [`core::rollout`] and with the reasons of [`core::pods`].
//! 12. **verify**: what the new Pods name, and what the substitute of an evicted one reads, [`core::substitute`].
//! 13. **record**: what the new Pods read, [`core::recording`], so that it is still known tomorrow, [`core::record`].
//! 14. **report**: the document of which every screen is a printing, [`core::report::Document`].
//!
//! Beside them: [`core::diff`] compares two sides, [`core::contents`] lists the versions of one ConfigMap, and
//! [`core::restore`] puts one back in place. [`core::observation`] is what the Pods of a moment hold and answer.
//!
//! [`core`] is pure, [`cluster`] is all traffic, [`run`] has a file a verb, and [`cli`] alone prints.

pub mod cli;
pub mod cluster;
pub mod core;
pub mod run;
