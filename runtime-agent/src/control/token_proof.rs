//! How a client and the agent prove to each other that they know the token, without sending it.
//!
//! ```text
//! client                                   agent
//! auth CLIENT_NONCE                  -->
//!                                    <--   nonce: AGENT_NONCE
//!                                          proof: HMAC("agent", both nonces)
//!                                          ok
//! mac HMAC("command", both nonces,   -->
//!     number, COMMAND) COMMAND
//!                                    <--   mac: HMAC("answer", both nonces, number, answer)
//!                                          answer
//! ```
//! Nonces are random, so nothing from one connection is valid on another. The client sends a command only
//! after the agent's proof. A program in between can relay what both sides sent, in order, and can close
//! the connection; it cannot forge, change, repeat or reorder anything.

use super::token::{Token, is_hex, random_hex};
use crate::error::Error;

const PROOF: &str = "tprofiler 1 agent";
const COMMAND: &str = "tprofiler 1 command";
const ANSWER: &str = "tprofiler 1 answer";

/// Either side's state of one connection.
pub(crate) struct Session {
    token: Token,
    client_nonce: String,
    agent_nonce: String,
    /// Number of the last command; the first is 1.
    number: u64,
}

/// A new nonce.
///
/// # Errors
/// The kernel has no random bytes yet.
pub(crate) fn new_nonce() -> Result<String, Error> {
    random_hex()
}

impl Session {
    /// `None` if a nonce is not 64 hexadecimal digits.
    pub(crate) fn new(token: &Token, client_nonce: &str, agent_nonce: &str) -> Option<Self> {
        let [client_nonce, agent_nonce] = [client_nonce, agent_nonce].map(str::to_owned);
        let are_nonces = is_hex(&client_nonce) && is_hex(&agent_nonce);
        are_nonces.then(|| Self { token: token.clone(), client_nonce, agent_nonce, number: 0 })
    }

    /// The agent's answer to `auth`.
    pub(crate) fn challenge(&self) -> String {
        let proof = self.token.sign(&[PROOF, &self.client_nonce, &self.agent_nonce]);
        format!("nonce: {}\nproof: {proof}\nok\n", self.agent_nonce)
    }

    /// Whether the agent's proof is valid.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn is_proof(&self, proof: &str) -> bool {
        self.token.has_signed(&[PROOF, &self.client_nonce, &self.agent_nonce], proof)
    }

    /// The line that sends the next command.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn command_line(&mut self, command: &str) -> String {
        self.number += 1;
        format!("mac {} {command}\n", self.sign(COMMAND, command))
    }

    /// The command on a line, if its HMAC proves that it is the client's next command.
    pub(crate) fn command<'l>(&mut self, line: &'l str) -> Option<&'l str> {
        let (mac, command) = line.strip_prefix("mac ")?.split_once(' ')?;
        self.number += 1;
        self.has_signed(COMMAND, command, mac).then_some(command)
    }

    /// An answer to the last command, with its HMAC in front.
    pub(crate) fn answer(&self, answer: &str) -> String {
        format!("mac: {}\n{answer}", self.sign(ANSWER, answer))
    }

    /// Whether the HMAC proves that this is the agent's answer to the last command.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn is_answer(&self, answer: &str, mac: &str) -> bool {
        self.has_signed(ANSWER, answer, mac)
    }

    fn sign(&self, what: &str, text: &str) -> String {
        let number = self.number.to_string();
        self.token.sign(&[what, &self.client_nonce, &self.agent_nonce, &number, text])
    }

    fn has_signed(&self, what: &str, text: &str, mac: &str) -> bool {
        let number = self.number.to_string();
        let texts = [what, &self.client_nonce, &self.agent_nonce, &number, text];
        self.token.has_signed(&texts, mac)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::folder::RunFolder;

    /// Client and agent of one connection.
    fn pair() -> (Session, Session) {
        let folder = tempfile::tempdir().unwrap();
        let (token, _file) = Token::create(&Arc::new(RunFolder::for_test(folder.path()))).unwrap();
        let (client, agent) = (new_nonce().unwrap(), new_nonce().unwrap());
        assert_ne!(client, agent);
        let side = || Session::new(&token, &client, &agent).unwrap();
        (side(), side())
    }

    fn proof(agent: &Session) -> String {
        let challenge = agent.challenge();
        let proof = challenge.lines().find_map(|line| line.strip_prefix("proof: "));
        proof.unwrap().to_owned()
    }

    fn answer(agent: &Session, answer: &str) -> String {
        let sent = agent.answer(answer);
        let (mac, rest) = sent.split_once('\n').unwrap();
        assert_eq!(rest, answer);
        mac.strip_prefix("mac: ").unwrap().to_owned()
    }

    /// The example in docs/control.md.
    #[test]
    fn the_documented_example_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "00112233445566778899aabbccddeeff".repeat(2)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        let token = Token::read(&path).unwrap();
        let (client, agent) = ("0123456789abcdef".repeat(4), "fedcba9876543210".repeat(4));
        let mut session = Session::new(&token, &client, &agent).unwrap();
        let shown = [
            format!("auth {client}\n"),
            session.challenge(),
            session.command_line("stop"),
            session.answer("service: shop.jar\npid: 4242\nprofiling: off\nok\n"),
        ];
        let indented: String = shown.concat().lines().map(|line| format!("    {line}\n")).collect();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/control.md");
        assert!(std::fs::read_to_string(page).unwrap().contains(&indented), "{indented}");
    }

    #[test]
    fn commands_and_answers_are_accepted_in_order() {
        let (mut client, mut agent) = pair();
        assert!(client.is_proof(&proof(&agent)));
        for command in ["stop", "json mute com.shop.*", "stop", ""] {
            let line = client.command_line(command);
            assert_eq!(agent.command(line.trim_end_matches('\n')), Some(command));
            let mac = answer(&agent, "ok\n");
            assert!(client.is_answer("ok\n", &mac) && !client.is_answer("error: no\n", &mac));
        }
    }

    #[test]
    fn a_wrong_token_proves_nothing() {
        let ((mut client, _), (_, mut agent)) = (pair(), pair());
        assert!(!client.is_proof(&proof(&agent)));
        assert_eq!(agent.command(client.command_line("stop").trim_end()), None);
        let (client, other) = (pair().0, "0".repeat(64));
        for wrong in [&*other, "", &other[..62], "zz"] {
            assert!(!client.is_proof(wrong), "{wrong}");
        }
    }

    #[test]
    fn repeated_skipped_reordered_and_changed_commands_are_refused() {
        let lines = |client: &mut Session| ["stop", "start"].map(|c| client.command_line(c));
        let ([first, _], (_, mut agent)) = {
            let (mut client, agent) = pair();
            (lines(&mut client), (client, agent))
        };
        assert_eq!(agent.command(first.trim_end()), Some("stop"));
        assert_eq!(agent.command(first.trim_end()), None, "repeated");

        let (mut client, mut agent) = pair();
        let [_, second] = lines(&mut client);
        assert_eq!(agent.command(second.trim_end()), None, "the first was skipped");

        let (mut client, agent) = pair();
        let [first, _] = lines(&mut client);
        for changed in [
            first.replace("stop", "stop now"),
            first.replace("stop", "detach"),
            first.replace(" stop", "  stop"),
            first.replacen("mac ", "", 1),
            first.replace(" stop", ""),
            first[..20].to_owned() + &first[22..],
        ] {
            let mut agent =
                Session::new(&agent.token, &agent.client_nonce, &agent.agent_nonce).unwrap();
            assert_eq!(agent.command(changed.trim_end()), None, "{changed}");
        }
        // The line is not valid on another connection with the same token.
        let other = new_nonce().unwrap();
        let mut later = Session::new(&agent.token, &agent.client_nonce, &other).unwrap();
        assert_eq!(later.command(first.trim_end()), None);
    }

    #[test]
    fn an_hmac_is_valid_in_one_direction_and_for_one_command_only() {
        let (mut client, mut agent) = pair();
        let line = client.command_line("ok");
        let mac = line.split(' ').nth(1).unwrap();
        assert!(!client.is_answer("ok", mac) && !client.is_proof(mac));
        assert_eq!(agent.command(line.trim_end()), Some("ok"));
        let mac = answer(&agent, "start");
        assert_eq!(agent.command(&format!("mac {mac} start")), None);
        // An answer to an earlier command is refused.
        let (mut client, mut agent) = pair();
        agent.command(client.command_line("status").trim_end()).unwrap();
        let mac = answer(&agent, "ok\n");
        client.command_line("status");
        assert!(!client.is_answer("ok\n", &mac));
    }

    #[test]
    fn a_nonce_is_64_hexadecimal_digits() {
        let folder = tempfile::tempdir().unwrap();
        let (token, _file) = Token::create(&Arc::new(RunFolder::for_test(folder.path()))).unwrap();
        let good = "0123456789abcdef".repeat(4);
        assert!(Session::new(&token, &good, &good).is_some());
        for bad in ["", &good[1..], &format!("{good}0"), &good.to_uppercase(), &"x".repeat(64)] {
            assert!(Session::new(&token, bad, &good).is_none(), "{bad}");
            assert!(Session::new(&token, &good, bad).is_none(), "{bad}");
        }
    }
}
