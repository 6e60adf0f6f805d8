//! The configuration file: what `headroom.toml` means once every value has been found possible.
//!
//! Uses `fleet`; does no I/O. Reading is in two steps: raw (what the text says, with the place of each value)
//! and checked (the types here). Nothing downstream sees a raw value. `headroom.example.toml` documents every
//! option; a test loads it. Each section of the file has a file of its own here, with its types, its defaults
//! and its reader. Read first: `draft.rs` (all sections in order), `section.rs` (one table while it is read,
//! and what is complained of), `conflict.rs` (what is only wrong across sections).

mod access;
mod admin;
mod changed;
mod complaint;
mod conflict;
mod credentials;
mod draft;
mod fleet_section;
mod insight;
mod listener;
mod matcher;
mod objective;
pub mod option_file;
mod router;
pub mod schema;
mod section;
mod server;
mod sourced;
mod tls;
mod value;
mod webhook;
mod zone;

pub use access::{Access, SAY_WHO_MAY_COME};
pub use admin::{Admin, AdminAccess, admin_clashes};
pub use changed::changed;
pub use complaint::{Complaint, Complaints};
pub use credentials::{Credentials, PasswordFrom};
pub use fleet_section::{AskingBudget, FleetConfig};
pub use insight::{Insight, InsightConfig};
pub use listener::{Listener, listeners_clash, open_to_the_network};
pub use matcher::Matcher;
pub use objective::{Objective, Target};
pub use router::{Capacity, DataPath, Rebalance, RouterConfig, ZeroHop};
pub use server::ServerRule;
pub use sourced::Sourced;
pub use tls::{ClientCert, ClientTls, ClientTlsMode, ServerTls, TLS_MODES, Tls, TlsMode};
pub use webhook::Webhook;
pub use zone::{OwnZone, ZoneRule};

use complaint::Ledger;
use draft::Draft;
use fleet::Address;
use section::Section;
use std::net::SocketAddr;
use toml::de::DeTable;

/// Everything `headroom route` needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The servers and how to ask them.
    pub fleet: FleetConfig,
    /// The data plane.
    pub router: RouterConfig,
    /// The addresses clients come to; at least one.
    pub listeners: Vec<Listener>,
    /// Status page, JSON and metrics; `None` switches them off.
    pub admin: Option<SocketAddr>,
    /// Who may read that, and how old it may be.
    pub admin_access: AdminAccess,
    /// What is promised of whose statements.
    pub objectives: Vec<Objective>,
    /// Who is told when a promise is broken.
    pub webhook: Option<Webhook>,
    /// Where the password is to be found; the binary looks there and puts it into `fleet.credentials`.
    pub password_from: Option<PasswordFrom>,
}

impl Config {
    /// One of these seeds and listeners alone, as flags give it: every other option is as usual.
    pub fn bare(seeds: Vec<Address>, listeners: Vec<Listener>) -> Self {
        Self {
            fleet: FleetConfig { seeds, ..FleetConfig::default() },
            router: RouterConfig::default(),
            listeners,
            admin: Some(Admin::DEFAULT_ADDRESS),
            admin_access: AdminAccess::default(),
            objectives: Vec::new(),
            webhook: None,
            password_from: None,
        }
    }

    /// Reads the text of a configuration file; `file` is its name for the complaints.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with line and column and what would be right.
    pub fn parse(text: &str, file: &str) -> Result<Self, Complaints> {
        let ledger = Ledger::new(file, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let message = error.message().trim_end().replace('\n', ", ");
            ledger.add(&error.span().unwrap_or(0..0), message, "the syntax of the file is TOML (toml.io)");
        }
        if !ledger.is_empty() {
            return Err(ledger.into_complaints());
        }
        let mut whole = Section::document(document.get_ref(), &ledger);
        let draft = Draft::read(&mut whole);
        whole.finish();
        conflict::find(&draft, &ledger);
        if ledger.is_empty() { Ok(draft.into_config()) } else { Err(ledger.into_complaints()) }
    }
}
