//! One macro for the sets of bits of the protocol: a table of names drives the constants, `Debug` and `Display`.

/// Declares a set of bits: `flags! { /// doc  pub struct Name: u16 { /// doc  A = 1, "words"; } }`.
macro_rules! flags {
    (
        $(#[$doc:meta])*
        pub struct $name:ident: $bits:ty {
            $( $(#[$flag_doc:meta])* $flag:ident = $value:expr, $words:literal; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($bits);

        impl $name {
            $( $(#[$flag_doc])* pub const $flag: Self = Self($value); )*

            const NAMED: &'static [(Self, &'static str)] = &[ $( (Self::$flag, $words), )* ];

            /// No bit set.
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The set with exactly these bits; unknown ones are kept.
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits)
            }

            /// The bits as a number.
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Is no bit set?
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Are all bits of `other` set?
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Is any bit of `other` set?
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// This set without the bits of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// This set and `other`, as a constant expression.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The words of every bit that is set, in the order of the table.
            pub fn words(self) -> impl Iterator<Item = &'static str> {
                Self::NAMED.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, words)| *words)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut first = true;
                for words in self.words() {
                    f.write_str(if first { "" } else { ", " })?;
                    f.write_str(words)?;
                    first = false;
                }
                Ok(())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:#x}: {self})", stringify!($name), self.0)
            }
        }
    };
}

pub(crate) use flags;
