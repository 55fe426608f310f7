//! The domain check: numbers of two types may be compared only where one counter gives both.

use proptest::prelude::*;
use saferollback::core::observed::Domain;

/// Otherwise a missing list would count as a passed check.
#[test]
fn a_missing_number_turns_the_pair_off() {
    let on = Domain::check(Some(1), [Some(2); 3], Some(3));
    assert_eq!(on, Domain { pods: true, replica_sets: true, events: true });
    assert_eq!(Domain::check(None, [Some(2); 3], Some(3)), Domain::default());
    assert_eq!(Domain::check(Some(1), [Some(2); 3], None), Domain::default());
    let one = Domain::check(Some(1), [None, Some(2), Some(2)], Some(3));
    assert_eq!(one, Domain { pods: false, replica_sets: true, events: true });
    assert_eq!(Domain::check_around([Some(1); 3], None, [Some(3); 3]), Domain::default());
    assert!(!Domain::check_around([Some(1); 3], Some((2, 2)), [None; 3]).pods);
    assert!(!Domain::check_around([Some(1); 3], Some((2, 9)), [Some(3); 3]).pods, "every list of contents counts");
}

proptest! {
    /// Otherwise an ordinary cluster would lose its proofs: one counter always passes, from either side.
    #[test]
    fn one_counter_passes(mut n in proptest::collection::vec(1u64..1_000_000, 3)) {
        n.sort_unstable();
        prop_assert!(Domain::check(Some(n[0]), [Some(n[1]); 3], Some(n[2])).pods);
        prop_assert!(Domain::check_around([Some(n[0]); 3], Some((n[1], n[1])), [Some(n[2]); 3]).pods);
    }

    /// Otherwise another store's counter, higher or lower by more than what was written meanwhile, would be trusted.
    #[test]
    fn another_counter_fails(a in 1u64..1_000_000, gap in 0u64..100, off in 1u64..1_000_000) {
        let c = a + gap;
        prop_assert!(!Domain::check(Some(a), [Some(c + off); 3], Some(c)).pods);
        if let Some(low) = a.checked_sub(off) {
            prop_assert!(!Domain::check(Some(a), [Some(low); 3], Some(c)).pods);
        }
    }
}
