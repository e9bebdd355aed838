//! Throws by class, on threads without a JVM.

use log_format::ids::MethodId;

use super::method_totals::Added;
use super::tests::{caught, end, leave_by, no_java, record_on_thread, start, totals, turn};
use super::throws::Correction;
use super::*;

#[test]
fn an_exception_begins_where_it_first_leaves_a_measured_call() {
    let _turn = turn();
    record_on_thread(0, || {
        let begin = |method| assert_eq!(start(method, no_java), Entry::Go);
        let leave =
            |method, exception| leave_by(method, Thrown { class: ClassHash::new(7), exception });
        [1, 2, 3].into_iter().for_each(begin);
        // Each method has its class from now on.
        assert_eq!(
            leave(3, 100),
            Some(Left { probe_id: ProbeId::new(3), class: ClassHash::new(7), began: true })
        );
        assert_eq!(
            leave(2, 100),
            Some(Left { probe_id: ProbeId::new(2), class: ClassHash::new(7), began: false })
        );
        // Another one of its class.
        assert_eq!(
            leave(1, 101),
            Some(Left { probe_id: ProbeId::new(1), class: ClassHash::new(7), began: true })
        );
        // One that is thrown by a call, and again by a later one.
        [1, 2].into_iter().for_each(begin);
        assert_eq!(leave(2, 200), None);
        begin(2);
        assert_eq!((leave(2, 200), leave(1, 200)), (None, None));
        assert_eq!(leave(1, 200), None, "no such call is in progress");
        let counts = |method| {
            let Added { throws, began, class, .. } = totals(method);
            (throws, began, class.bits())
        };
        assert_eq!([1, 2, 3].map(counts), [(2, 1, 7), (3, 2, 7), (1, 1, 7)]);
    });
}

#[test]
fn exceptions_of_other_classes_and_unseen_ones_are_corrected() {
    let _turn = turn();
    throws::count(true);
    drop(throws::take_corrections());
    record_on_thread(0, || {
        let leave = |class| leave_by(1, Thrown { class: ClassHash::new(class), exception: 5 });
        for (class, is_new) in [(7, true), (8, true), (7, false), (9, true)] {
            assert_eq!(start(1, no_java), Entry::Go);
            assert_eq!(leave(class).is_some(), is_new, "{class}");
        }
        // One that no probe sees.
        [2, 1].into_iter().for_each(|method| assert_eq!(start(method, no_java), Entry::Go));
        caught(2);
        end(2);
        let Added { throws, began, class, .. } = totals(1);
        assert_eq!((throws, began, class.bits()), (5, 4, 7));
    });
    let mut corrections = throws::take_corrections();
    corrections.sort_unstable_by_key(|(class, ..)| *class);
    let method = MethodId::new(1);
    let one = Correction { thrown: 1, began: 1 };
    let moved = Correction { thrown: -3, began: -2 };
    let expected = [(7, moved), (8, one), (9, one)];
    assert_eq!(corrections, expected.map(|(class, by)| (ClassHash::new(class), method, by)));
}
