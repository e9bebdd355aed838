//! A queue of events that the service's threads add and the agent thread takes all at once, with a bound and an
//! account.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Account;

/// The queue.
pub(crate) struct BoundedQueue<T> {
    /// Most values that wait.
    most: usize,
    /// What a value allocates, in bytes.
    allocated: fn(&T) -> usize,
    values: Mutex<Vec<T>>,
    /// The number of values, to read without the lock.
    length: AtomicUsize,
    /// The memory of the values and of what they allocate.
    account: Account,
}

impl<T> BoundedQueue<T> {
    /// A queue for `most` values. `allocated` returns the bytes that a value allocates.
    pub(crate) const fn new(most: usize, allocated: fn(&T) -> usize) -> Self {
        Self {
            most,
            allocated,
            values: Mutex::new(Vec::new()),
            length: AtomicUsize::new(0),
            account: Account::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many values wait.
    pub(crate) fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Whether a push would fail now: then the value need not be made. Takes no lock.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Adds a value; `false` if the queue is full, or there is no memory.
    pub(crate) fn push(&self, value: T) -> bool {
        let bytes = size_of::<T>() + (self.allocated)(&value);
        let mut values = self.lock();
        let has_room =
            values.len() < self.most && values.try_reserve(1).is_ok() && self.account.take(bytes);
        if has_room {
            values.push(value);
            self.length.store(values.len(), Ordering::Relaxed);
        }
        has_room
    }

    /// Takes the values since the last call, and gives their memory back.
    pub(crate) fn take(&self) -> Vec<T> {
        let mut values = self.lock();
        self.account.give_all();
        self.length.store(0, Ordering::Relaxed);
        std::mem::take(&mut *values)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::refuse;
    use super::*;

    fn queue(most: usize) -> BoundedQueue<Vec<u8>> {
        BoundedQueue::new(most, Vec::capacity)
    }

    #[test]
    fn a_full_queue_keeps_what_it_has() {
        let queue = queue(2);
        assert!(queue.push(vec![1]) && !queue.is_full());
        assert!(queue.push(vec![2]) && queue.is_full());
        assert!(!queue.push(vec![3]));
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.take(), [[1], [2]]);
        assert_eq!((queue.len(), queue.is_full()), (0, false));
        assert!(queue.push(vec![4]));
        assert_eq!(queue.take(), [[4]]);
        assert!(queue.take().is_empty());
    }

    #[test]
    fn values_and_what_they_allocate_are_counted_until_they_are_taken() {
        let queue = queue(2);
        assert!(queue.push(Vec::with_capacity(1_000)) && queue.push(Vec::new()));
        let full = 2 * size_of::<Vec<u8>>() + 1_000;
        assert_eq!(queue.account.bytes(), full);
        assert!(!queue.push(vec![3]));
        assert_eq!(queue.account.bytes(), full);
        drop(queue.take());
        assert_eq!(queue.account.bytes(), 0);
    }

    #[test]
    fn without_memory_nothing_is_added() {
        let queue = queue(2);
        assert!(queue.push(vec![1]));
        refuse(true);
        assert!(!queue.push(vec![2]));
        refuse(false);
        assert_eq!((queue.len(), queue.account.bytes()), (1, size_of::<Vec<u8>>() + 1));
        assert!(queue.push(vec![3]));
        assert_eq!(queue.take(), [[1], [3]]);
    }

    #[test]
    fn threads_never_exceed_the_bound_or_lose_a_value() {
        static QUEUE: BoundedQueue<u32> = BoundedQueue::new(50, |_| 0);
        let mut taken = 0;
        let pushed: usize = std::thread::scope(|scope| {
            let push = || (0..10_000).filter(|number| QUEUE.push(*number)).count();
            let threads = [(); 4].map(|()| scope.spawn(push));
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let values = QUEUE.take();
                assert!(values.len() <= 50);
                taken += values.len();
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken + QUEUE.take().len(), pushed);
        assert_eq!((QUEUE.len(), QUEUE.account.bytes()), (0, 0));
    }
}
