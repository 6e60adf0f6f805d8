//! On the mysqld of target/mysql.

mod driver_suites;
mod trial;
mod zero_hop;
