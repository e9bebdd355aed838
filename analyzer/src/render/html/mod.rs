//! The whole report as one page for a browser. It needs no network, and no other file.
//!
//! ```text
//! page/*.html, *.css, *.js    the page, put together when this crate is built
//! data.rs                     what it shows, as JSON in a script element
//! ```
//!
//! Sums are made here; the page only sorts, searches and draws. What it embeds is bounded, whatever
//! the logs are: see [`data`].

mod data;
mod paths;

use std::io::{self, Write};

use self::data::Page;
use crate::report::Report;

const BEFORE_DATA: &str = concat!(
    include_str!("page/head.html"),
    "<style>\n",
    include_str!("page/style.css"),
    "</style>\n</head>\n",
    include_str!("page/body.html"),
    "<script id=\"data\" type=\"application/json\">",
);

const AFTER_DATA: &str = concat!(
    "</script>\n<script>\n\"use strict\";\n(() => {\n",
    include_str!("page/data.js"),
    include_str!("page/table.js"),
    include_str!("page/flame.js"),
    include_str!("page/charts.js"),
    include_str!("page/timeline.js"),
    include_str!("page/method.js"),
    include_str!("page/main.js"),
    "})();\n</script>\n</body>\n</html>\n",
);

pub fn render(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let json = serde_json::to_string(&Page::new(report))?;
    out.write_all(BEFORE_DATA.as_bytes())?;
    // A method may have any name; none ends the script element.
    out.write_all(json.replace('<', "\\u003c").as_bytes())?;
    out.write_all(AFTER_DATA.as_bytes())
}
