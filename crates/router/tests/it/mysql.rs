//! On a real mysqld, from target/mysql.

mod insight;
mod probes;
mod tls;
mod transcript;
