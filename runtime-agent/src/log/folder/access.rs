//! Who may use the log's folders and files: only the JVM's user, or also a group, which may read.

use std::fs;
use std::os::fd::AsFd;

use log_format::error::{BadValue, FileError};
use log_format::writer::is_unprintable;
use rustix::fs::{Gid, Mode, fchmod, fchown, fremovexattr};
use rustix::io::Errno;

use super::refusal::Refusal;
use crate::error::Error;

/// The file with the names of groups. The C library's look-up may ask other machines, and wait for them.
const GROUPS: &str = "/etc/group";

/// Attributes in which a file system keeps the rights of further users and groups. A new folder inherits them from
/// the folder that contains it, which may be another user's.
const ACLS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// Who may use what the agent creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    group: Option<Gid>,
}

impl Access {
    /// Reads the option `log_group`: the name of a group, or its number.
    ///
    /// # Errors
    /// There is no such group.
    pub(super) fn of(group: Option<&str>) -> Result<Self, Error> {
        let Some(group) = group else { return Ok(Self::default()) };
        // The kernel takes the largest number to mean "no change".
        let number = group.parse().ok().filter(|number| *number != u32::MAX);
        let number = match number {
            Some(number) => number,
            None => number_of(group)?,
        };
        Ok(Self { group: Some(Gid::from_raw(number)) })
    }

    pub(super) fn has_group(self) -> bool {
        self.group.is_some()
    }

    pub(super) fn folder_mode(self) -> Mode {
        Mode::from_raw_mode(if self.has_group() { 0o750 } else { 0o700 })
    }

    pub(super) fn file_mode(self) -> Mode {
        Mode::from_raw_mode(if self.has_group() { 0o640 } else { 0o600 })
    }

    /// Gives the group access, if there is one. Without a group nothing needs to change: files are created with the
    /// owner's mode, and a umask only removes rights.
    pub(super) fn admit_group(self, what: impl AsFd, mode: Mode) -> Result<(), Refusal> {
        let Some(group) = self.group else { return Ok(()) };
        let refused = |error: Errno| Refusal::Group(group.as_raw(), error);
        fchown(&what, None, Some(group)).map_err(refused)?;
        for acl in ACLS {
            match fremovexattr(&what, acl) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        // Last, so that no other group has the new rights for a moment.
        fchmod(&what, mode).map_err(refused)
    }
}

fn number_of(name: &str) -> Result<u32, Error> {
    let shown = name.replace(is_unprintable, "?");
    let groups = fs::read(GROUPS).map_err(FileError::at(GROUPS));
    let groups = groups.map_err(|error| error.of(&shown).of("log_group"))?;
    find(&String::from_utf8_lossy(&groups), name).ok_or_else(|| {
        let reason = format!("no group '{shown}' in {GROUPS}; give its number");
        BadValue::because(reason).of("log_group").into()
    })
}

/// The number of a group, from lines like `shop:x:4711:anna,ben`.
fn find(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_number_or_a_name_of_the_file() {
        let number = |group: &str| {
            let access = Access::of(Some(group)).map_err(|error| error.to_string());
            access.map(|access| access.group.unwrap())
        };
        assert_eq!(number("4711"), Ok(Gid::from_raw(4711)));
        assert_eq!(number("root"), Ok(Gid::ROOT));
        assert_eq!(Access::of(None).unwrap(), Access::default());
        for group in ["no-such-group", "", "-1", "4294967295", "a:b"] {
            let expected = format!("log_group: no group '{group}' in /etc/group; give its number");
            assert_eq!(number(group), Err(expected));
        }
        assert!(number("two\nlines").unwrap_err().contains("'two?lines'"));
        let groups = "root:x:0:\n# shop:x:1\nshop:x\nshop:x:many:\nshop:*:4711:anna,ben\n+\n";
        assert_eq!(find(groups, "shop"), Some(4711));
        assert_eq!(find(groups, "anna"), None);
    }
}
