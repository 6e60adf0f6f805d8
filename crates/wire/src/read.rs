//! A cursor over the payload of a packet. Every read is total: `None` when the bytes do not hold it, and then
//! the cursor stays where it was.

/// Reads the protocol's integers and strings from a byte slice, front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Is everything read?
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, left in place.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    /// Leaves out `n` bytes.
    pub fn skip(&mut self, n: usize) -> Option<()> {
        self.bytes(n).map(|_| ())
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Three bytes, little-endian.
    pub fn u24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length-encoded integer. `None` also for 0xfb (NULL) and 0xff (an error packet), which are no
    /// integers.
    pub fn lenenc(&mut self) -> Option<u64> {
        let before = self.rest;
        let value = match self.u8()? {
            small @ 0..=0xfa => Some(u64::from(small)),
            0xfc => self.u16().map(u64::from),
            0xfd => self.u24().map(u64::from),
            0xfe => self.u64(),
            0xfb | 0xff => None,
        };
        if value.is_none() {
            self.rest = before;
        }
        value
    }

    /// A string that starts with its length-encoded length.
    pub fn lenenc_bytes(&mut self) -> Option<&'a [u8]> {
        let before = self.rest;
        let taken = self.lenenc().and_then(|n| self.bytes(usize::try_from(n).ok()?));
        if taken.is_none() {
            self.rest = before;
        }
        taken
    }

    /// A string up to a NUL byte, which is read too and not part of the value.
    pub fn until_nul(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.rest)?;
        let taken = self.bytes(end)?;
        self.skip(1)?;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_have_four_widths() {
        let mut r = Reader::new(&[0xfa, 0xfc, 1, 2, 0xfd, 1, 2, 3, 0xfe, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(r.lenenc(), Some(250));
        assert_eq!(r.lenenc(), Some(0x0201));
        assert_eq!(r.lenenc(), Some(0x03_0201));
        assert_eq!(r.lenenc(), Some(0x0100_0000_0000_0001));
        assert!(r.is_empty());
    }

    #[test]
    fn a_read_that_fails_leaves_the_cursor_in_place() {
        let mut r = Reader::new(&[0xfc, 1]);
        assert_eq!(r.lenenc(), None);
        assert_eq!(r.lenenc_bytes(), None);
        assert_eq!(r.until_nul(), None);
        assert_eq!(r.u32(), None);
        assert_eq!(r.rest(), &[0xfc, 1]);
    }
}
