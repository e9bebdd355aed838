//! Answers on threads that wait for locks: which, who has it, and who waits for each other.

use std::collections::HashMap;
use std::hash::Hash;

use log_format::human;
use log_format::ids::OsThreadId;
use log_format::writer::one_line;
use serde_json::{Value, json};

use super::answer::Answer;
use crate::locks::Owner;
use crate::sampling::thread_now::{LockNow, ThreadNow};

/// ` on com.shop.Stock for 1.20 s, held by exec-7`, or nothing.
pub(super) fn text(thread: &ThreadNow, threads: &[ThreadNow]) -> String {
    let Some(lock) = &thread.lock else { return String::new() };
    let held = owner(lock, threads).map(|(name, _)| format!(", held by {}", one_line(&name)));
    let (class, waited) = (&lock.class, human::duration(lock.waited_ns));
    format!(" on {class} for {waited}{}", held.unwrap_or_default())
}

/// The same in JSON, or null.
pub(super) fn value(thread: &ThreadNow, threads: &[ThreadNow]) -> Value {
    let Some(lock) = &thread.lock else { return Value::Null };
    let (owner, owner_os_id) = owner(lock, threads).unzip();
    json!({
        "kind": lock.kind.name(),
        "class": lock.class,
        "waited_ns": lock.waited_ns,
        "owner": owner,
        "owner_os_id": owner_os_id.flatten(),
    })
}

/// The name of the thread that has a lock, and the kernel's number of a platform thread.
fn owner(lock: &LockNow, threads: &[ThreadNow]) -> Option<(String, Option<OsThreadId>)> {
    match lock.owner {
        Owner::NotAsked | Owner::Unknown => None,
        Owner::Virtual(number) => Some((format!("virtual thread {number}"), None)),
        Owner::Platform(os_id) => {
            let owner =
                threads.iter().find(|thread| !thread.is_virtual && thread.os_id == os_id)?;
            Some((owner.name.name.clone(), Some(os_id)))
        }
    }
}

/// Threads that wait for each other.
pub(super) fn add_deadlocks(answer: &mut Answer, threads: &[ThreadNow]) {
    let name = |os_id: &OsThreadId| {
        let thread = threads.iter().find(|thread| thread.os_id == *os_id);
        thread.map_or_else(String::new, |thread| one_line(&thread.name.name))
    };
    let platform = threads.iter().filter(|thread| !thread.is_virtual);
    let waits_for = platform.filter_map(|thread| match thread.lock.as_ref()?.owner {
        Owner::Platform(os_id) => Some((thread.os_id, os_id)),
        _ => None,
    });
    let circles = circles(&waits_for.collect());
    for circle in &circles {
        let names: Vec<String> = circle.iter().chain(circle.first()).map(name).collect();
        answer.line("deadlock", names.join(" waits for "));
    }
    answer.value("deadlocks", json!(circles));
}

/// The circles of threads of which each waits for the next; each begins with its lowest number.
fn circles<T: Copy + Ord + Hash>(waits_for: &HashMap<T, T>) -> Vec<Vec<T>> {
    let mut circles = Vec::new();
    for start in waits_for.keys() {
        let next = |thread: &T| waits_for.get(thread).copied();
        let chain = std::iter::successors(Some(*start), next).take(waits_for.len() + 1);
        let mut circle = vec![*start];
        circle.extend(chain.skip(1).take_while(|thread| thread > start));
        let is_closed = circle.last().and_then(next) == Some(*start);
        if is_closed && circle.len() <= waits_for.len() {
            circles.push(circle);
        }
    }
    circles.sort_unstable();
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_for_each_other_are_a_circle() {
        let circles = |pairs: &[(u32, u32)]| circles(&pairs.iter().copied().collect());
        let none: Vec<Vec<u32>> = Vec::new();
        assert_eq!(circles(&[]), none);
        assert_eq!(circles(&[(1, 2), (2, 3)]), none);
        assert_eq!(circles(&[(2, 1), (1, 2)]), [[1, 2]]);
        // 9 and 4 wait for threads of a circle.
        let all = [(7, 3), (3, 5), (5, 7), (9, 3), (4, 9), (11, 12), (12, 11)];
        assert_eq!(circles(&all), [vec![3, 5, 7], vec![11, 12]]);
    }
}
