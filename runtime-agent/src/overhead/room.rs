//! Which methods that are left out are measured again, and when.

use super::{LeftOut, Overhead, SECOND_NS, SETTLED_NS, TARGET};

/// What comes back may fill so much of the budget: methods that are worth it, which will not be left out again.
const WORTH_IT: f64 = 0.8;
/// How often methods come back for which there is room, and of those that are closed, one at a time: their classes have to be retransformed,
/// after which a large program may take ten seconds to be as fast as before.
const ROOM_NS: u64 = 30 * SECOND_NS;
const ROOM_FOR_CLOSED_NS: u64 = 1_800 * SECOND_NS;
/// As long as no more are closed, it takes no time worth speaking of, and all that fit come back when the
/// program has settled.
const FEW: usize = 64;

impl Overhead {
    /// The methods that are to be measured again: there is a sign, or room.
    pub(crate) fn look_again(&mut self, now_ns: u64) -> Vec<u32> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let mut found = self.signs.look_again(&self.left_out, now_ns);
        let mut used = self.share * self.cpu_rate;
        if now_ns >= self.next_room_ns {
            let fitting = self.fitting(false, now_ns, &mut used);
            self.next_room_ns = now_ns + if fitting.is_empty() { SECOND_NS } else { ROOM_NS };
            found.extend(fitting);
        }
        let closed = self.left_out.values().filter(|left| left.is_closed()).count();
        let (first_ns, room_ns) = match closed <= FEW {
            true => (SETTLED_NS, ROOM_NS),
            false => (ROOM_FOR_CLOSED_NS, ROOM_FOR_CLOSED_NS),
        };
        let is_settled = self.began_ns.is_some_and(|began_ns| now_ns >= began_ns + first_ns);
        if is_settled && now_ns >= self.next_closed_ns {
            let mut fitting = self.fitting(true, now_ns, &mut used);
            if closed > FEW {
                fitting.truncate(1);
            }
            self.next_closed_ns = now_ns + if fitting.is_empty() { SECOND_NS } else { room_ns };
            found.extend(fitting);
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|id| self.left_out.contains_key(id));
        found
    }

    /// The methods for which there is room, as far as can be told: of those that are closed or not.
    /// `used` is the CPU time that probes take, in nanoseconds a second, theirs included.
    fn fitting(&self, closed: bool, now_ns: u64, used: &mut f64) -> Vec<u32> {
        let budget = self.budget.map_or(0.0, |budget| f64::from(budget) / 1e6);
        let is_waiting = |left: &LeftOut| left.is_closed() == closed && left.again_ns <= now_ns;
        let waiting = self.left_out.iter().filter(|(_, left)| is_waiting(left));
        let mut waiting: Vec<(&u32, &LeftOut)> = waiting.collect();
        waiting
            .sort_by(|one, other| one.1.ratio.total_cmp(&other.1.ratio).then(one.0.cmp(other.0)));
        let mut fits = |(_, left): &(&u32, &LeftOut)| {
            let cost = left.base_calls_per_s * self.growth * left.call_ns;
            let target = if left.ratio <= budget { WORTH_IT } else { TARGET };
            let does = *used + cost <= target * budget * self.cpu_rate;
            *used += if does { cost } else { 0.0 };
            does
        };
        waiting.into_iter().filter(|of| fits(of)).map(|(id, _)| *id).collect()
    }
}
