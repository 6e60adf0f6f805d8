//! A session as OTLP's span: one trace with one span each, because MySQL's protocol carries no trace of the
//! client's. Attributes have the names of OpenTelemetry's conventions where those have one, else
//! `headroom.`.
//!
//! What a span says of its server and listener beyond their names is looked up when it is sent, so that the
//! data plane need not know it.

use crate::metrics::nanoseconds;
use crate::proto::collector::trace::v1::ExportTraceServiceRequest;
use crate::proto::common::v1::KeyValue;
use crate::proto::trace::v1::span::SpanKind;
use crate::proto::trace::v1::status::StatusCode;
use crate::proto::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use crate::resource::{Resource, number, text};
use crate::sessions::{EndedSession, Fields};
use console::status_view::StatusView;
use fleet::{Address, Flavour};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What is known of the servers and listeners that sessions name.
#[derive(Clone, Debug, Default)]
pub struct Names {
    servers: BTreeMap<String, Server>,
    /// Address -> `reader` or `writer`.
    listeners: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
struct Server {
    address: Option<Address>,
    flavour: Option<Flavour>,
    zone: Option<String>,
}

impl Names {
    /// As a router sees them.
    pub fn of(status: &StatusView) -> Self {
        let servers = status.fleet.servers.iter().map(|server| {
            let known = Server {
                address: server.reach.parse().ok(),
                flavour: server.version.as_deref().and_then(flavour),
                zone: server.zone.as_ref().map(|zone| zone.zone.clone()),
            };
            (server.name.clone(), known)
        });
        let listeners =
            status.listeners.iter().map(|listener| (listener.address.clone(), listener.role.clone()));
        Self { servers: servers.collect(), listeners: listeners.collect() }
    }
}

/// The first word of a version as people read it: `MariaDB 10.11.14`.
fn flavour(version: &str) -> Option<Flavour> {
    let word = version.split(' ').next()?;
    [Flavour::MySql, Flavour::MariaDb].into_iter().find(|flavour| flavour.to_string() == word)
}

/// The message of these sessions.
pub(crate) fn message(
    sessions: &[EndedSession],
    resource: &Resource,
    names: &Names,
) -> ExportTraceServiceRequest {
    let spans = sessions.iter().map(|session| span(session, names)).collect();
    let scope = ScopeSpans { scope: Some(resource.scope()), spans, ..ScopeSpans::default() };
    let spans = ResourceSpans {
        resource: Some(resource.message()),
        scope_spans: vec![scope],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![spans] }
}

fn span(session: &EndedSession, names: &Names) -> Span {
    let EndedSession { fields, began, lasted } = session;
    let failed = fields.end.as_ref().filter(|end| end.failed);
    let status = failed.map(|end| Status { message: end.why.clone(), code: StatusCode::Error as i32 });
    Span {
        // Zeros are no identity; they come once in 2^64.
        trace_id: rand::random::<u128>().max(1).to_be_bytes().to_vec(),
        span_id: rand::random::<u64>().max(1).to_be_bytes().to_vec(),
        name: "session".to_owned(),
        kind: SpanKind::Server as i32,
        start_time_unix_nano: nanoseconds(*began),
        end_time_unix_nano: nanoseconds(*began + *lasted),
        attributes: attributes(fields, names),
        status,
        ..Span::default()
    }
}

fn attributes(fields: &Fields, names: &Names) -> Vec<KeyValue> {
    let mut all = vec![
        number("headroom.session.id", i64::try_from(fields.id).unwrap_or(i64::MAX)),
        text("headroom.listener", &fields.listener),
    ];
    all.extend(names.listeners.get(&fields.listener).map(|role| text("headroom.listener.role", role)));
    if let Some(client) = &fields.client {
        all.extend(client_attributes(client));
    }
    if let Some(server) = &fields.server {
        all.push(text("headroom.server", server));
        all.extend(names.servers.get(server).into_iter().flat_map(server_attributes));
    }
    if let Some(end) = &fields.end {
        all.push(text("headroom.session.end", &end.why));
        all.extend(end.failed.then(|| text("error.type", &end.why)));
    }
    all
}

fn client_attributes(client: &str) -> Vec<KeyValue> {
    match client.parse::<SocketAddr>() {
        Ok(client) => vec![
            text("client.address", &client.ip().to_string()),
            number("client.port", client.port().into()),
            text("network.transport", "tcp"),
        ],
        Err(_) => vec![text("network.transport", "unix")],
    }
}

fn server_attributes(server: &Server) -> Vec<KeyValue> {
    let mut all = Vec::new();
    match &server.address {
        Some(Address::Tcp { host, port }) => {
            all.extend([text("server.address", host), number("server.port", (*port).into())]);
        }
        Some(Address::Unix(path)) => all.push(text("server.address", &path.display().to_string())),
        None => {}
    }
    let system = server.flavour.map(|flavour| match flavour {
        Flavour::MySql => "mysql",
        Flavour::MariaDb => "mariadb",
    });
    all.extend(system.map(|system| text("db.system.name", system)));
    all.extend(server.zone.as_ref().map(|zone| text("headroom.server.zone", zone)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::End;
    use std::time::{Duration, UNIX_EPOCH};

    fn session(client: Option<&str>, server: Option<&str>, end: Option<(&str, bool)>) -> EndedSession {
        let owned = |text: &str| text.to_owned();
        let fields = Fields {
            id: 7,
            listener: owned("127.0.0.1:3306"),
            client: client.map(owned),
            server: server.map(owned),
            end: end.map(|(why, failed)| End { why: owned(why), failed }),
        };
        let began = UNIX_EPOCH + Duration::from_secs(100);
        EndedSession { fields, began, lasted: Duration::from_millis(1500) }
    }

    fn names() -> Names {
        Names::of(&console::sample_status::status())
    }

    #[test]
    fn a_session_has_the_names_of_the_conventions() {
        let sample = console::sample_status::status();
        let server = &sample.fleet.servers[1];
        let listener = sample.listeners[0].clone();
        let mut session =
            session(Some("[2001:db8::5]:999"), Some(&server.name), Some(("moved: balance", false)));
        session.fields.listener.clone_from(&listener.address);
        let span = span(&session, &names());
        let Ok(Address::Tcp { host, port }) = server.reach.parse() else { panic!("{}", server.reach) };
        let wanted = [
            number("headroom.session.id", 7),
            text("headroom.listener", &listener.address),
            text("headroom.listener.role", &listener.role),
            text("client.address", "2001:db8::5"),
            number("client.port", 999),
            text("network.transport", "tcp"),
            text("headroom.server", &server.name),
            text("server.address", &host),
            number("server.port", port.into()),
            text("db.system.name", "mariadb"),
            text("headroom.server.zone", "us-east-1a"),
            text("headroom.session.end", "moved: balance"),
        ];
        assert_eq!(span.attributes, wanted);
        assert_eq!(
            (span.name.as_str(), span.kind, &span.status),
            ("session", SpanKind::Server as i32, &None)
        );
        let nanoseconds = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert_eq!(nanoseconds, (100_000_000_000, 101_500_000_000));
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert_ne!(span.trace_id, super::span(&session, &names()).trace_id);
    }

    #[test]
    fn one_that_failed_is_an_error_of_its_reason() {
        let span = span(&session(Some("(unix socket)"), None, Some(("no_server", true))), &names());
        let status = Status { message: "no_server".to_owned(), code: StatusCode::Error as i32 };
        assert_eq!(span.status, Some(status));
        assert!(span.attributes.contains(&text("error.type", "no_server")), "{span:?}");
        assert!(span.attributes.contains(&text("network.transport", "unix")), "{span:?}");
        assert!(!span.attributes.iter().any(|one| one.key == "client.address"), "{span:?}");
    }

    #[test]
    fn a_server_that_is_known_no_more_has_its_name() {
        let span = span(&session(None, Some("former"), None), &names());
        assert!(span.attributes.contains(&text("headroom.server", "former")), "{span:?}");
        assert!(!span.attributes.iter().any(|one| one.key.starts_with("server.")), "{span:?}");
    }
}
