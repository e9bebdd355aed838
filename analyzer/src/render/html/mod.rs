//! The whole report as one page for a browser. It needs no network and no other file.
//!
//! ```text
//! page/*.html, *.css, *.js    the page, put together when this crate is built
//! data.rs                     what it shows: JSON, compressed (gzip) and written in base64
//! methods.rs, paths.rs        its tables of methods and call paths
//! short_tables.rs             its tables of locks, SQL statements, allocations, traced methods and exceptions
//! ```
//!
//! Sums are made here; the page only sorts, searches and draws. The embedded data is bounded, whatever the logs
//! contain: see [`data`].

mod data;
mod methods;
mod paths;
mod short_tables;

use std::io::{self, BufWriter, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::GzEncoder;

use self::data::Page;
use crate::report::Report;

const BEFORE_DATA: &str = concat!(
    include_str!("page/head.html"),
    "<style>\n",
    include_str!("page/style.css"),
    "</style>\n</head>\n",
    include_str!("page/body.html"),
    "<script id=\"data\" type=\"application/octet-stream\">",
);

const AFTER_DATA: &str = concat!(
    "</script>\n<script>\n\"use strict\";\n(async () => {\n",
    include_str!("page/data.js"),
    include_str!("page/table.js"),
    include_str!("page/flame.js"),
    include_str!("page/charts.js"),
    include_str!("page/timeline.js"),
    include_str!("page/method.js"),
    include_str!("page/main.js"),
    "})();\n</script>\n</body>\n</html>\n",
);

/// Limit of a page's data. The rest of the page is 45 KB.
const MOST_BYTES: usize = 9_800_000;

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut packed = Vec::new();
    for scale in [1, 2, 4, 8, 16] {
        packed = pack(&Page::new(report, scale))?;
        if packed.len() <= MOST_BYTES {
            break;
        }
    }
    out.write_all(BEFORE_DATA.as_bytes())?;
    out.write_all(&packed)?;
    out.write_all(AFTER_DATA.as_bytes())
}

/// Packs the data, usually to a fifth of its size. Whatever a method's name is, it cannot end the script element.
fn pack(page: &Page<'_>) -> io::Result<Vec<u8>> {
    let mut base64 = EncoderWriter::new(Vec::new(), &STANDARD);
    let mut gzip = GzEncoder::new(BufWriter::new(&mut base64), Compression::default());
    serde_json::to_writer(&mut gzip, page)?;
    gzip.finish()?.flush()?;
    base64.finish()
}
