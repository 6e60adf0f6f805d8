//! What is read of a command's body: pure functions of its bytes.

use super::names::{Identity, name};
use super::pending::Becomes;
use crate::attributes;
use crate::capability::Capabilities;
use crate::command::Command;
use crate::read::Reader;

/// What the session becomes if the server agrees.
pub(super) fn becomes(command: Command, body: &[u8], capabilities: Capabilities) -> Option<Becomes> {
    match command {
        Command::InitDb => Some(Becomes::Database(name(body))),
        Command::ChangeUser => {
            let identity = changed_identity(body, capabilities).unwrap_or_default();
            Some(Becomes::Identity(Box::new(identity)))
        }
        _ => None,
    }
}

/// The statement's id at the start of most commands about prepared statements.
pub(super) fn statement_id(body: &[u8]) -> u32 {
    Reader::new(body).u32().unwrap_or_default()
}

/// The account and database that `COM_CHANGE_USER` asks for.
fn changed_identity(body: &[u8], capabilities: Capabilities) -> Option<Identity> {
    let mut r = Reader::new(body);
    let user = r.until_nul()?;
    if capabilities.contains(Capabilities::SECURE_CONNECTION) {
        let length = r.u8()?;
        r.skip(usize::from(length))?;
    } else {
        r.until_nul()?;
    }
    let database = r.until_nul().unwrap_or(r.rest());
    Some(Identity { user: name(user), database: name(database) })
}

/// Where the text starts behind query attributes. `None` when they do not parse.
pub(super) fn text_behind_attributes(body: &[u8]) -> Option<usize> {
    attributes::of_query(body).map(|(_, text)| body.len() - text.len())
}
