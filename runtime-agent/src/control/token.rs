//! The token: the key with which clients and the agent prove themselves to each other, see
//! [`super::session`].
//!
//! The agent creates one for each run, in a file that only its own user and root can read, or reads the one in
//! `token_file`. It never shows or sends the token.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use log_format::error::FileError;
use log_format::writer::one_line;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;

use crate::attach_protocol;
use crate::error::Error;
use crate::log::folder::RunFolder;

/// A shorter one can be guessed: every client gets an HMAC from the agent and can test guesses offline.
const MIN_TOKEN: usize = 16;
const MAX_TOKEN: usize = 1_024;
/// Bytes of a random token, of a nonce and of an HMAC.
const BYTES: usize = 32;

/// A token, ready to make and check HMACs.
#[derive(Clone)]
pub(crate) struct Token(Hmac<Sha256>);

impl Token {
    /// Reads the token in a file that a user has named. Follows links.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn read(path: &Path) -> Result<Self, FileError> {
        Self::read_with(path, 0)
    }

    /// Reads the token that an agent has written to its run's folder.
    ///
    /// # Errors
    /// Why it cannot be used.
    #[cfg(feature = "cli")]
    pub(crate) fn read_of_run(folder: &Path) -> Result<Self, FileError> {
        Self::read_with(&folder.join(attach_protocol::TOKEN_FILE), libc::O_NOFOLLOW)
    }

    fn read_with(path: &Path, flags: i32) -> Result<Self, FileError> {
        Self::try_read(path, flags).map_err(FileError::at(one_line(&path.display().to_string())))
    }

    fn try_read(path: &Path, flags: i32) -> io::Result<Self> {
        // Opening a device can have side effects, so check before. Check again after: it may have changed.
        let before = if flags == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) };
        check(&before?)?;
        // O_NONBLOCK: opening a pipe must not wait for a writer.
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK | flags);
        let file = options.open(path)?;
        check(&file.metadata()?)?;
        let mut bytes = Vec::new();
        file.take(MAX_TOKEN as u64 + 2).read_to_end(&mut bytes)?;
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
        Self::of(line)
    }

    fn of(text: &[u8]) -> io::Result<Self> {
        if text.is_empty() {
            return Err(io::Error::other("its first line is empty"));
        }
        if text.iter().any(|b| !b.is_ascii_graphic()) {
            let reason = "a token has no spaces and none but ASCII characters";
            return Err(io::Error::other(reason));
        }
        match text.len() {
            MIN_TOKEN..=MAX_TOKEN => {}
            length => {
                return Err(io::Error::other(format!(
                    "token of {length} characters; use {MIN_TOKEN} to {MAX_TOKEN} random ones, for \
                     example from openssl rand -hex 32"
                )));
            }
        }
        // HMAC accepts a key of any length, so this does not fail.
        let key = Hmac::new_from_slice(text).map_err(io::Error::other)?;
        Ok(Self(key))
    }

    /// Creates a random token, in a new file of a run's folder.
    ///
    /// # Errors
    /// The kernel has no random bytes, or the file cannot be created.
    pub(crate) fn create(folder: &Arc<RunFolder>) -> Result<(Self, TokenFile), Error> {
        let text = random_hex()?;
        let path = one_line(&folder.path().join(attach_protocol::TOKEN_FILE).display().to_string());
        let token = Self::of(text.as_bytes()).map_err(FileError::at(&path))?;
        let written = folder.create_private(attach_protocol::TOKEN_FILE).and_then(|mut file| {
            file.write_all(format!("{text}\n").as_bytes())?;
            Ok(TokenFile { folder: folder.clone(), _file: file })
        });
        Ok((token, written.map_err(FileError::at(path))?))
    }

    /// The HMAC of texts in hexadecimal. Each text is preceded by its length, so that no two lists of
    /// texts give the same message.
    pub(crate) fn sign(&self, texts: &[&str]) -> String {
        hex(&self.of_texts(texts).finalize().into_bytes())
    }

    /// Whether this is the HMAC of these texts, compared in constant time.
    pub(crate) fn has_signed(&self, texts: &[&str], mac: &str) -> bool {
        bytes(mac).is_some_and(|mac| self.of_texts(texts).verify_slice(&mac).is_ok())
    }

    fn of_texts(&self, texts: &[&str]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for text in texts {
            // Lines and answers are far shorter than 4 GiB.
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            mac.update(&length.to_be_bytes());
            mac.update(text.as_bytes());
        }
        mac
    }
}

/// The file of a token that the agent created. It stays open so that `tprofiler` finds it in `/proc/PID/fd`, and is
/// deleted on drop.
#[derive(Debug)]
pub(crate) struct TokenFile {
    folder: Arc<RunFolder>,
    _file: File,
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It is not an error if the file or the whole folder is already deleted.
        let _ = self.folder.remove(attach_protocol::TOKEN_FILE);
    }
}

/// Refuses anything that is not a regular file, and a file that another user could read or has written.
fn check(file: &Metadata) -> io::Result<()> {
    if !file.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mode = file.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let reason = format!("others than its owner may use it (mode {mode:03o})");
        return Err(io::Error::other(reason));
    }
    let (own, owner) = (geteuid().as_raw(), file.uid());
    if own != 0 && ![0, own].contains(&owner) {
        let reason = format!("it belongs to user {owner}, not to {own} or root");
        return Err(io::Error::other(reason));
    }
    Ok(())
}

/// 32 random bytes from the kernel, in hexadecimal.
///
/// # Errors
/// The kernel has none yet.
pub(crate) fn random_hex() -> Result<String, Error> {
    let mut bytes = [0; BYTES];
    // Does not wait, even if the machine has just booted.
    match getrandom(&mut bytes, GetRandomFlags::NONBLOCK) {
        Ok(BYTES) => Ok(hex(&bytes)),
        Ok(_) => Err(Error::State("too few random bytes")),
        Err(error) => Err(Error::NoRandomBytes(error)),
    }
}

/// Whether a text has the form that [`random_hex`] makes.
pub(crate) fn is_hex(text: &str) -> bool {
    bytes(text).is_some()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of 64 hexadecimal digits in lower case.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * BYTES || !text.bytes().all(is_digit) {
        return None;
    }
    let pairs = (0..BYTES).map(|at| text.get(2 * at..2 * at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Test case 2 of RFC 4231 (section 4.3). Its message contains no lengths.
    #[test]
    fn an_hmac_is_that_of_rfc_4231() {
        let mut mac = Token(Hmac::new_from_slice(b"Jefe").unwrap()).of_texts(&[]);
        mac.update(b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&mac.finalize().into_bytes()), expected);
    }

    /// The expected value is that of Python's `hmac.new(key, message, "sha256")`.
    #[test]
    fn texts_are_signed_behind_their_lengths() {
        let token = Token::of(b"0123456789abcdef").unwrap();
        let mac = token.sign(&["a", "bc"]);
        assert_eq!(mac, "1f766980f6e1274ed00117e9ddae03b272e8595a7d652de36c30ddd414c819bd");
        assert!(token.has_signed(&["a", "bc"], &mac));
        for other in [&["ab", "c"][..], &["abc"], &["a", "bc", ""], &["", "a", "bc"], &[]] {
            assert!(!token.has_signed(other, &mac), "{other:?}");
        }
        let wrong = Token::of(b"0123456789abcdeg").unwrap();
        assert!(!wrong.has_signed(&["a", "bc"], &mac));
        for wrong in
            [&mac[..62], &format!("{mac}00"), &mac.to_uppercase(), &mac.replace('7', "g"), "", "é"]
        {
            assert!(!token.has_signed(&["a", "bc"], wrong), "{wrong}");
        }
    }

    fn same(one: &Token, other: &Token) -> bool {
        one.sign(&["x"]) == other.sign(&["x"])
    }

    #[test]
    fn a_token_is_the_first_line_of_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &[u8], mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path)
                .map_err(|e| e.to_string().rsplit(": ").next().unwrap_or_default().to_owned())
        };
        let expected = Token::of(b"s3cret-0f-the-sh0p").unwrap();
        for text in [
            &b"s3cret-0f-the-sh0p"[..],
            b"s3cret-0f-the-sh0p\n",
            b"s3cret-0f-the-sh0p\r\nmore\n",
            b" s3cret-0f-the-sh0p \n",
        ] {
            let token = read(text, 0o600).unwrap_or_else(|e| panic!("{e}"));
            assert!(same(&token, &expected));
        }
        let longest = vec![b'x'; MAX_TOKEN];
        assert!(same(&read(&longest, 0o400).unwrap(), &Token::of(&longest).unwrap()));
        let good = b"s3cret-0f-the-sh0p\n";
        let length = |length: usize| {
            format!(
                "token of {length} characters; use 16 to 1024 random ones, for example from openssl \
                 rand -hex 32"
            )
        };
        for (text, mode, message) in [
            (&b""[..], 0o600, "its first line is empty"),
            (b"\ns3cret\n", 0o600, "its first line is empty"),
            (
                b"two words, that are long\n",
                0o600,
                "a token has no spaces and none but ASCII characters",
            ),
            (
                b"gr\xc3\xbcn-gr\xc3\xbcn-gr\xc3\xbcn\n",
                0o600,
                "a token has no spaces and none but ASCII characters",
            ),
            (b"fifteen-letters\n", 0o600, &length(15)),
            (&vec![b'x'; MAX_TOKEN + 1], 0o600, &length(1_025)),
            (good, 0o640, "others than its owner may use it (mode 640)"),
            (good, 0o604, "others than its owner may use it (mode 604)"),
            (good, 0o620, "others than its owner may use it (mode 620)"),
        ] {
            assert_eq!(read(text, mode).err().as_deref(), Some(message));
        }
        assert!(Token::read(folder.path()).err().unwrap().to_string().ends_with("not a file"));
        assert!(
            Token::read(Path::new("/dev/null")).err().unwrap().to_string().ends_with("not a file")
        );
        fs::remove_file(&path).unwrap();
        assert!(Token::read(&path).err().unwrap().to_string().contains("No such file"));
    }

    #[test]
    fn a_generated_token_is_random_and_private_and_deleted_on_drop() {
        let logs = tempfile::tempdir().unwrap();
        let folder = Arc::new(RunFolder::for_test(logs.path()));
        let path = folder.path().join("control.token");
        let (token, file) = Token::create(&folder).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o7777, metadata.len()), (0o600, 65));
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            is_hex(text.trim_end())
                && same(&Token::of(text.trim_end().as_bytes()).unwrap(), &token)
        );
        assert!(same(&Token::read_of_run(folder.path()).unwrap(), &token));
        // An existing file is never overwritten.
        let error = Token::create(&folder).err().unwrap().to_string();
        assert!(error.ends_with("File exists (os error 17)"), "{error}");
        drop(file);
        assert!(!path.exists());
        let (other, file) = Token::create(&folder).unwrap();
        assert!(!same(&other, &token));
        drop(file);
        // A link is followed neither on creation nor on reading.
        let elsewhere = folder.path().join("elsewhere");
        symlink(&elsewhere, &path).unwrap();
        assert!(Token::create(&folder).is_err() && !elsewhere.exists());
        fs::write(&elsewhere, text).unwrap();
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o600)).unwrap();
        assert!(Token::read(&path).is_ok(), "a file named by the user may be a link");
        assert!(
            Token::read_of_run(folder.path()).err().unwrap().to_string().ends_with("not a file")
        );
    }
}
