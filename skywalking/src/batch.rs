//! Snapshots in batches that servers and brokers take.

use prost::Message;

use crate::oap::messages::ThreadSnapshot;

/// Bytes of a batch: brokers take a megabyte by default, and a batch is in memory at once.
const MOST_BYTES: usize = 500_000;
/// Snapshots of a batch.
const MOST_SNAPSHOTS: usize = 1_000;

/// Cuts snapshots into batches. They are made when they are needed. A snapshot that is larger is a batch of its own.
pub(crate) fn batches(
    snapshots: impl Iterator<Item = ThreadSnapshot>,
) -> impl Iterator<Item = Vec<ThreadSnapshot>> {
    let mut snapshots = snapshots.peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![snapshots.next()?];
        let mut bytes = batch.first().map_or(0, ThreadSnapshot::encoded_len);
        while batch.len() < MOST_SNAPSHOTS {
            let fits = |next: &ThreadSnapshot| bytes + next.encoded_len() <= MOST_BYTES;
            let Some(next) = snapshots.next_if(fits) else { break };
            bytes += next.encoded_len();
            batch.push(next);
        }
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oap::messages::ThreadStack;

    fn snapshot(sequence: i32, frames: usize) -> ThreadSnapshot {
        let code_signatures = vec!["x".repeat(98); frames];
        let stack = Some(ThreadStack { code_signatures });
        ThreadSnapshot { task_id: "t".into(), sequence, stack, ..ThreadSnapshot::default() }
    }

    #[test]
    fn batches_are_no_larger_than_brokers_take() {
        let snapshots: Vec<_> = (0..100).map(|sequence| snapshot(sequence, 500)).collect();
        let cut: Vec<_> = batches(snapshots.clone().into_iter()).collect();
        assert_eq!(
            cut.iter().map(Vec::len).collect::<Vec<_>>(),
            [[9; 11].as_slice(), &[1]].concat()
        );
        assert_eq!(cut.concat(), snapshots);
        let huge = [snapshot(0, 20_000), snapshot(1, 1), snapshot(2, 1)];
        let cut: Vec<_> = batches(huge.into_iter()).map(|batch| batch.len()).collect();
        assert_eq!(cut, [1, 2]);
        let small = (0..2_001).map(|sequence| snapshot(sequence, 1));
        assert_eq!(batches(small).map(|batch| batch.len()).collect::<Vec<_>>(), [1_000, 1_000, 1]);
        assert_eq!(batches(std::iter::empty()).count(), 0);
    }
}
