//! What a real server says is what the client hears, byte for byte: the same script of commands, straight to
//! a MariaDB and through the router with each of its two ways of moving bytes, and inside TLS that ends at
//! the router. Large and odd answers, files, cursors, long data.

pub(crate) mod script;

use lab::Spec;
use script::Kind;
use wire::{Capabilities, auth};

#[tokio::test]
async fn every_byte_through_the_router_is_the_servers_on_both_ways() {
    let plain = Kind { plugin: auth::NATIVE_PASSWORD, more: Capabilities::empty() };
    let modern = Kind { more: Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK, ..plain };
    script::every_byte_is_the_servers(Spec::new(&[("a", 1)]), &[], &[plain, modern]).await;
}
