//! The token that opens an agent: from a file or the environment, never from the command line, where every
//! user of the machine could read it.

use anyhow::{Context, bail};
use base64::Engine;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// A shorter one could be guessed.
const SHORTEST: usize = 16;

/// A shared secret. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The first line of `file`, else what `HEADROOM_AGENT_TOKEN` holds, else none.
    ///
    /// # Errors
    /// A file that cannot be read, that everybody may read, or a token that is none.
    pub fn find(file: Option<&Path>, variable: Option<&str>) -> anyhow::Result<Option<Self>> {
        match (file, variable) {
            (Some(file), _) => Self::read(file).map(Some),
            (None, Some(token)) => Self::checked(token, "HEADROOM_AGENT_TOKEN").map(Some),
            (None, None) => Ok(None),
        }
    }

    fn read(file: &Path) -> anyhow::Result<Self> {
        let shown = file.display();
        let cannot = || format!("cannot read the token from {shown}");
        let mode = std::fs::metadata(file).with_context(cannot)?.permissions().mode();
        if mode & 0o007 != 0 {
            bail!("{shown} holds a token and everybody may read it; run chmod 600 {shown}");
        }
        let text = std::fs::read_to_string(file).with_context(cannot)?;
        Self::checked(text.lines().next().unwrap_or_default().trim(), &shown.to_string())
    }

    fn checked(token: &str, place: &str) -> anyhow::Result<Self> {
        if token.len() < SHORTEST || !token.chars().all(|c| c.is_ascii_graphic()) {
            bail!(
                "{place} holds no token: it takes {SHORTEST} or more letters, digits and signs without spaces; \
                 make one with: openssl rand -hex 32"
            );
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether a request's `Authorization` brings it: as `Bearer`, or as the password of `Basic`, which
    /// browsers ask people for.
    ///
    /// Compared in a time that does not tell where it differs; its length is no secret.
    pub fn opens(&self, authorization: &str) -> bool {
        let Some((scheme, given)) = authorization.split_once(' ') else { return false };
        let given = given.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is(given.as_bytes());
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return false;
        }
        let Ok(pair) = base64::engine::general_purpose::STANDARD.decode(given) else { return false };
        match pair.iter().position(|byte| *byte == b':') {
            Some(colon) => self.is(&pair[colon + 1..]),
            None => false,
        }
    }

    /// The value of the header `Authorization` that brings it.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "0123456789abcdef";

    fn token() -> Token {
        Token(RIGHT.to_owned())
    }

    #[test]
    fn only_the_whole_token_opens_as_bearer_or_as_a_password() {
        assert!(token().opens(&format!("Bearer {RIGHT}")));
        assert!(token().opens(&format!("bearer  {RIGHT} ")));
        assert!(token().opens("Basic YW55Ym9keTowMTIzNDU2Nzg5YWJjZGVm"), "that is anybody:{RIGHT}");
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdee",
            "Bearer 0123",
            RIGHT,
            "Basic ?",
            "Basic YQ==",
        ] {
            assert!(!token().opens(wrong), "{wrong}");
        }
        assert!(!token().opens(&format!("Bearer {RIGHT}{RIGHT}")));
        assert!(!token().opens(&format!("Digest {RIGHT}")));
    }

    #[test]
    fn a_token_comes_from_a_file_that_not_everybody_may_read_else_from_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, format!("{RIGHT}\n")).unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        let said = Token::find(Some(&file), None).unwrap_err().to_string();
        assert!(said.contains("chmod 600") && !said.contains(RIGHT), "{said}");
        mode(0o640);
        assert_eq!(Token::find(Some(&file), None).unwrap(), Some(token()));
        assert_eq!(Token::find(None, Some(RIGHT)).unwrap(), Some(token()));
        assert_eq!(Token::find(None, None).unwrap(), None);
        let said = Token::find(None, Some("tooshort")).unwrap_err().to_string();
        assert!(said.contains("HEADROOM_AGENT_TOKEN") && !said.contains("tooshort"), "{said}");
        assert_eq!(format!("{:?}", token()), "Token(hidden)");
    }
}
