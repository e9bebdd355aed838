//! A chunk: the part of a recording that can be read without the others.
//!
//! ```text
//! header     68 bytes, big-endian
//! events     each with its length in front
//! constants  an event that has what the events refer to
//! metadata   an event that describes all types
//! ```

use std::io::{self, Write};

use super::constants::Constants;
use super::encoding::{event, number};

/// Length of the header.
const HEADER_BYTES: usize = 68;

/// A chunk is written when its events and constants take this: the default of `jdk.jfr` is 12 MB.
const FULL_BYTES: usize = 12 << 20;

/// A tick is a nanosecond.
const TICKS_PER_S: u64 = 1_000_000_000;

/// The header's last word: complete, numbers are compressed.
const FLAGS: u32 = 1;

/// The latest moment and the longest time: a recording's numbers are signed.
const MOST_NS: u64 = u64::MAX >> 1;

/// See the module.
pub struct Chunk {
    /// The moment from which ticks count. Moments before it are negative.
    base_ns: u64,
    events: Vec<u8>,
    /// When the first event began and the last one ended; `None` without events.
    span_ns: Option<(u64, u64)>,
    /// What events refer to.
    pub constants: Constants,
}

impl Chunk {
    /// A chunk without events, whose ticks count from a moment. The constants are those of a chunk that begins.
    pub fn new(base_ns: u64, constants: Constants) -> Self {
        Self { base_ns: base_ns.min(MOST_NS), events: Vec::new(), span_ns: None, constants }
    }

    /// Begins the next chunk of the run.
    pub fn next(&mut self) {
        self.events.clear();
        self.span_ns = None;
        self.constants.next_chunk();
    }

    /// Whether it should be written before more is added.
    pub fn is_full(&self) -> bool {
        self.events.len() + self.constants.len() >= FULL_BYTES
    }

    /// Whether it has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// When the first event began: the base without events.
    pub fn start_ns(&self) -> u64 {
        self.span_ns.map_or(self.base_ns, |(start_ns, _)| start_ns)
    }

    /// Adds an event at a moment; `fields` writes what follows the moment.
    pub fn add(&mut self, type_id: u64, at_ns: u64, fields: impl FnOnce(&mut Vec<u8>)) {
        self.event(type_id, at_ns, None, fields);
    }

    /// Adds an event that took some time.
    pub fn add_long(
        &mut self,
        type_id: u64,
        start_ns: u64,
        duration_ns: u64,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        self.event(type_id, start_ns, Some(duration_ns), fields);
    }

    fn event(
        &mut self,
        type_id: u64,
        start_ns: u64,
        duration_ns: Option<u64>,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        let start_ns = start_ns.min(MOST_NS);
        let duration_ns = duration_ns.map(|ns| ns.min(MOST_NS - start_ns));
        let end_ns = start_ns + duration_ns.unwrap_or(0);
        let (first_ns, last_ns) = self.span_ns.unwrap_or((start_ns, end_ns));
        self.span_ns = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
        let ticks = self.ticks(start_ns);
        event(&mut self.events, type_id, |body| {
            number(body, ticks);
            duration_ns.into_iter().for_each(|ns| number(body, ns));
            fields(body);
        });
    }

    fn ticks(&self, at_ns: u64) -> u64 {
        at_ns.wrapping_sub(self.base_ns)
    }

    /// Writes the chunk with this event of metadata.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, metadata: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let mut constants = Vec::new();
        self.constants.write(&mut constants);
        let (start_ns, end_ns) = self.span_ns.unwrap_or((self.base_ns, self.base_ns));
        let constants_at = HEADER_BYTES + self.events.len();
        let metadata_at = constants_at + constants.len();
        let [constants_at, metadata_at, bytes] =
            [constants_at, metadata_at, metadata_at + metadata.len()]
                .map(|place| u64::try_from(place).unwrap_or(u64::MAX));
        // The version is 2.0.
        out.write_all(b"FLR\0\0\x02\0\0")?;
        let start_ticks = self.ticks(start_ns);
        let numbers = [
            bytes,
            constants_at,
            metadata_at,
            start_ns,
            end_ns - start_ns,
            start_ticks,
            TICKS_PER_S,
        ];
        for number in numbers {
            out.write_all(&number.to_be_bytes())?;
        }
        out.write_all(&FLAGS.to_be_bytes())?;
        [&self.events, &constants, metadata].into_iter().try_for_each(|part| out.write_all(part))
    }
}
