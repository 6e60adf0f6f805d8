//! Set: settings that somebody asks for, checked all together and applied in a session that can put them
//! back; or each write that this would take, and none made.

use crate::action::ProgramAction;
use crate::apply::{self, Change, Manner, Outcome};
use crate::error::Error;
use crate::host::Host;
use crate::item::Access;
use crate::name;
use crate::server::Server;
use crate::session::{Connect, RestoreOutcome, Session};
use crate::tuner::Tuner;
use crate::view::{Preview, Writes};
use std::collections::BTreeMap;
use std::path::Path;

/// What is to be set, and what is meant by it.
#[derive(Clone, Debug)]
pub struct SetRequest {
    /// `NAME=VALUE`.
    pub assignments: Vec<String>,
    /// Dangerous settings that are meant, by name.
    pub dangers: Vec<String>,
    /// Programs that run here and change settings by themselves.
    pub tuners: Vec<Tuner>,
    /// Those of them that may go on.
    pub beside: Vec<String>,
    /// `KNOB=PROGRAM`: what a program of the caller's changes.
    pub actions: Vec<String>,
    /// The address of the server whose variables are meant.
    pub server: Option<String>,
    pub manner: Manner,
}

/// What was done, and the session that can undo it.
#[derive(Debug)]
pub struct SetWork {
    pub session: Session,
    /// What a dead process had left.
    pub recovered: Vec<RestoreOutcome>,
    pub outcomes: Vec<Outcome>,
}

impl SetRequest {
    /// Puts back what a dead process left, and applies all of it.
    ///
    /// # Errors
    /// What is asked for is wrong, dangerous, or a tuner would undo it; then it is not applied.
    pub fn apply(&self, host: &Host, mut session: Session) -> Result<SetWork, Error> {
        for action in &self.actions {
            let (knob, program) = name::assignment(action)?;
            let program = host.whole_path(Path::new(program))?;
            let action = ProgramAction::new(host.clone(), &program);
            session.act(&name::parse(host, knob)?.to_string(), Box::new(action));
        }
        let address = self.server.as_deref();
        // A dead process may have left the server stopped: then only putting back starts it.
        let down = address.is_some_and(|address| session.server(address).is_err());
        let mut recovered = if down { session.recover() } else { Vec::new() };
        let server = address.map(|address| session.server(address)).transpose()?;
        let changes = self.checked(host, server)?;
        recovered.extend(session.recover());
        let outcomes = session.apply(&changes, address, &self.manner);
        Ok(SetWork { session, recovered, outcomes })
    }

    /// Every write that it would take.
    ///
    /// # Errors
    /// As [`SetRequest::apply`].
    pub fn preview(&self, host: &Host, mut connect: Connect) -> Result<Vec<Preview>, Error> {
        let mut server = match &self.server {
            Some(address) => Some(connect(address)?),
            None => None,
        };
        let changes = self.checked(host, server.as_deref_mut())?;
        let mut actions = BTreeMap::new();
        let mut access = Access { host, server: server.as_deref_mut(), actions: &mut actions };
        let preview = |change: &Change| Preview {
            knob: change.name.to_string(),
            value: change.value.clone(),
            writes: Result::map_or_else(
                apply::preview(&mut access, change, &self.manner),
                Writes::Refused,
                Writes::Writes,
            ),
        };
        Ok(changes.iter().map(preview).collect())
    }

    fn checked(
        &self,
        host: &Host,
        server: Option<&mut (dyn Server + 'static)>,
    ) -> Result<Vec<Change>, Error> {
        let changes = apply::check(host, server, &self.assignments, &self.dangers)?;
        apply::alone(&self.tuners, &changes, &self.beside)?;
        Ok(changes)
    }
}
