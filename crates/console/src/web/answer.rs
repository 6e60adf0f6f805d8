//! An HTTP answer while it comes in: whole by its stated length, by its last chunk, or by the end of the
//! connection.

/// What has come so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Status code and body.
    Whole(u16, Vec<u8>),
    /// More must come.
    Part,
    /// It is no HTTP.
    Wrong(&'static str),
}

impl Answer {
    /// Reads what has come; `ended`: nothing more will.
    pub(super) fn read(bytes: &[u8], ended: bool) -> Self {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.starts_with(b"HTTP/") || b"HTTP/".starts_with(bytes) {
                Self::Part
            } else {
                Self::Wrong("it does not speak HTTP")
            };
        };
        let head = String::from_utf8_lossy(&bytes[..end]);
        let body = &bytes[end + 4..];
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let code = first.next().filter(|word| word.starts_with("HTTP/")).and_then(|_| first.next());
        let Some(code) = code.and_then(|code| code.parse().ok()) else {
            return Self::Wrong("its first line has no status code");
        };
        let value = |name: &str| {
            lines.clone().find_map(|line| {
                let (known, value) = line.split_once(':')?;
                known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        if value("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            return chunks(body).map_or(Self::Part, |body| Self::Whole(code, body));
        }
        match value("content-length").map(|length| length.parse::<usize>()) {
            Some(Ok(length)) => {
                body.get(..length).map_or(Self::Part, |body| Self::Whole(code, body.to_owned()))
            }
            Some(Err(_)) => Self::Wrong("its length is no number"),
            None if ended => Self::Whole(code, body.to_owned()),
            None => Self::Part,
        }
    }
}

/// The chunks put together; `None` while the last is missing, or where they are none.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let from = line + 2;
        whole.extend_from_slice(rest.get(from..from.checked_add(size)?)?);
        rest = rest.get(from + size..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_by_length_by_chunks_or_by_the_end() {
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(Answer::read(sized, false), Answer::Whole(200, b"ok".to_vec()));
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n1;x=y\r\n!\r\n0\r\n\r\n";
        assert_eq!(Answer::read(chunked, false), Answer::Whole(200, b"ok!".to_vec()));
        let open = b"HTTP/1.0 500 No\r\n\r\nwhy";
        assert_eq!(Answer::read(open, false), Answer::Part);
        assert_eq!(Answer::read(open, true), Answer::Whole(500, b"why".to_vec()));
    }

    #[test]
    fn a_part_is_a_part_at_every_cut_and_something_else_is_wrong() {
        for whole in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        ] {
            for cut in 0..whole.len() {
                assert_eq!(Answer::read(&whole[..cut], false), Answer::Part, "{cut}");
            }
        }
        assert!(matches!(Answer::read(b"J\0\0\0\n5.5.5-10.11", false), Answer::Wrong(_)));
        assert!(matches!(Answer::read(b"HTTP/1.1 what\r\n\r\n", true), Answer::Wrong(_)));
    }
}
