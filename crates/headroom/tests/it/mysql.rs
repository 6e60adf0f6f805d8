//! On the mysqld of target/mysql.

mod driver_suites;
mod zero_hop;
