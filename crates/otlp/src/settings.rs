//! Settings, from the environment variables that OpenTelemetry's specification defines for every program. An
//! empty variable counts as absent. A variable with the name of a signal (`..._METRICS_HEADERS`) stands
//! before the one without.
//!
//! What differs from the specification: metrics go out every 15 s, as they are scraped, and not every 60; and
//! nothing is sent where no variable names an endpoint.

use crate::client::Signal;
use crate::error::OtlpError;
use console::web::{Web, WebAddress};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(15);
/// Of one call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer at most: it says how many points were not taken.
const LARGEST: usize = 64 << 10;
/// HTTP's own, which a list of headers must not change.
const OURS: [&str; 3] = ["connection", "content-length", "transfer-encoding"];

/// Where what is sent, and how often.
#[derive(Debug)]
pub struct Settings {
    /// Absent where metrics are not sent.
    pub metrics: Option<Signal>,
    /// Absent where spans are not sent.
    pub traces: Option<Signal>,
    /// From one export of the metrics to the next.
    pub interval: Duration,
    /// The share of sessions whose spans are sent, above 0 to 1.
    pub sampled: f64,
    /// What the operator says of this process, in place of our own attributes of the same name.
    pub attributes: Vec<(String, String)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Metrics,
    Traces,
}

struct Variable {
    name: String,
    text: String,
}

struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Settings {
    /// Reads them from `variable`s; nothing where nothing is to be sent.
    ///
    /// # Errors
    /// A variable whose value cannot be used. Whoever runs a data plane goes on without OTLP then.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, OtlpError> {
        let variables = Variables(&variable);
        if variables.one("OTEL_SDK_DISABLED").is_some_and(|value| value.text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let metrics = variables.signal(Kind::Metrics)?;
        let sampled = variables.sampled()?;
        let traces = variables.signal(Kind::Traces)?.filter(|_| sampled > 0.0);
        if metrics.is_none() && traces.is_none() {
            return Ok(None);
        }
        let interval = match variables.one("OTEL_METRIC_EXPORT_INTERVAL") {
            Some(value) => value.milliseconds(1_000..=86_400_000, "milliseconds from 1000 to 86400000")?,
            None => INTERVAL,
        };
        Ok(Some(Self { metrics, traces, interval, sampled, attributes: variables.attributes()? }))
    }
}

impl Kind {
    fn in_names(self) -> &'static str {
        match self {
            Self::Metrics => "METRICS",
            Self::Traces => "TRACES",
        }
    }

    fn in_paths(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Traces => "traces",
        }
    }
}

impl Variables<'_> {
    fn one(&self, name: &str) -> Option<Variable> {
        let text = (self.0)(name)?.trim().to_owned();
        (!text.is_empty()).then(|| Variable { name: name.to_owned(), text })
    }

    fn own(&self, kind: Kind, name: &str) -> Option<Variable> {
        self.one(&format!("OTEL_EXPORTER_OTLP_{}_{name}", kind.in_names()))
    }

    fn general(&self, name: &str) -> Option<Variable> {
        self.one(&format!("OTEL_EXPORTER_OTLP_{name}"))
    }

    fn of(&self, kind: Kind, name: &str) -> Option<Variable> {
        self.own(kind, name).or_else(|| self.general(name))
    }

    fn signal(&self, kind: Kind) -> Result<Option<Signal>, OtlpError> {
        let exporters = self.one(&format!("OTEL_{}_EXPORTER", kind.in_names()));
        if exporters.is_some_and(|value| value.text.split(',').all(|word| word.trim() != "otlp")) {
            return Ok(None);
        }
        let address = match (self.own(kind, "ENDPOINT"), self.general("ENDPOINT")) {
            // As it is written.
            (Some(own), _) => own.address()?,
            (None, Some(general)) => general.address()?.below(&["v1", kind.in_paths()]),
            (None, None) => return Ok(None),
        };
        if let Some(value) = self.of(kind, "PROTOCOL").filter(|value| value.text != "http/protobuf") {
            return Err(value.wrong("http/protobuf, which goes to port 4318 of most collectors"));
        }
        let own = ["CLIENT_CERTIFICATE", "CLIENT_KEY"].into_iter().find_map(|name| self.of(kind, name));
        if let Some(Variable { name: variable, .. }) = own {
            return Err(OtlpError::ClientCertificate { variable });
        }
        let timeout = match self.of(kind, "TIMEOUT") {
            Some(value) => value.milliseconds(1..=600_000, "milliseconds from 1 to 600000")?,
            None => TIMEOUT,
        };
        let gzip = match self.of(kind, "COMPRESSION") {
            None => false,
            Some(value) if value.text == "none" => false,
            Some(value) if value.text == "gzip" => true,
            Some(value) => return Err(value.wrong("gzip or none")),
        };
        let headers = self.of(kind, "HEADERS").map_or(Ok(HeaderMap::new()), |value| value.headers())?;
        let authority = self.of(kind, "CERTIFICATE");
        let path = authority.as_ref().map(|value| Path::new(&value.text));
        let web = Web::new(address, path, timeout, LARGEST).map_err(|source| {
            let variable = authority.as_ref().map_or_else(|| "TLS".to_owned(), |value| value.name.clone());
            OtlpError::Authority { variable, source: Box::new(source) }
        })?;
        Ok(Some(Signal::new(web, headers, gzip)))
    }

    /// A session's span has no parent, so that what is based on one is based on nothing.
    fn sampled(&self) -> Result<f64, OtlpError> {
        let Some(sampler) = self.one("OTEL_TRACES_SAMPLER") else { return Ok(1.0) };
        match sampler.text.strip_prefix("parentbased_").unwrap_or(&sampler.text) {
            "always_on" => Ok(1.0),
            "always_off" => Ok(0.0),
            "traceidratio" => {
                let Some(ratio) = self.one("OTEL_TRACES_SAMPLER_ARG") else { return Ok(1.0) };
                let share = ratio.text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share.ok_or_else(|| ratio.wrong("a share from 0 to 1"))
            }
            _ => Err(sampler.wrong("always_on, always_off or traceidratio")),
        }
    }

    fn attributes(&self) -> Result<Vec<(String, String)>, OtlpError> {
        let list = self.one("OTEL_RESOURCE_ATTRIBUTES");
        let mut attributes = list.map_or(Ok(Vec::new()), |value| value.pairs())?;
        let service = self.one("OTEL_SERVICE_NAME");
        attributes.extend(service.map(|value| ("service.name".to_owned(), value.text)));
        Ok(attributes)
    }
}

impl Variable {
    fn wrong(self, right: &'static str) -> OtlpError {
        OtlpError::Value { variable: self.name, value: self.text, right }
    }

    fn address(self) -> Result<WebAddress, OtlpError> {
        WebAddress::parse(&self.text).map_err(|source| OtlpError::Address { variable: self.name, source })
    }

    fn milliseconds(
        self,
        limits: std::ops::RangeInclusive<u64>,
        right: &'static str,
    ) -> Result<Duration, OtlpError> {
        let number = self.text.parse().ok().filter(|number| limits.contains(number));
        number.map(Duration::from_millis).ok_or_else(|| self.wrong(right))
    }

    /// `key=value` with commas between them; what is not plain in a value is written with percent signs.
    fn pairs(&self) -> Result<Vec<(String, String)>, OtlpError> {
        let entries = self.text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).enumerate();
        let pair = |(at, entry): (usize, &str)| {
            let (key, value) = entry.split_once('=').ok_or_else(|| self.entry(at, "has no ="))?;
            let plain = |text: &str| {
                let decoded = percent_decode_str(text.trim()).decode_utf8();
                decoded.map(Cow::into_owned).map_err(|_| self.entry(at, "is no UTF-8"))
            };
            match (plain(key)?, plain(value)?) {
                (key, _) if key.is_empty() => Err(self.entry(at, "has no key")),
                pair => Ok(pair),
            }
        };
        entries.map(pair).collect()
    }

    fn headers(&self) -> Result<HeaderMap, OtlpError> {
        let mut headers = HeaderMap::new();
        for (at, (name, value)) in self.pairs()?.into_iter().enumerate() {
            let name =
                HeaderName::from_bytes(name.as_bytes()).ok().filter(|name| !OURS.contains(&name.as_str()));
            let name = name.ok_or_else(|| self.entry(at, "has a name that no header of yours can have"))?;
            let value = HeaderValue::from_str(&value);
            let mut value = value.map_err(|_| self.entry(at, "has a value that no header can have"))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(headers)
    }

    fn entry(&self, at: usize, why: &'static str) -> OtlpError {
        OtlpError::Entry { variable: self.name.clone(), entry: at + 1, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, OtlpError> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::read(|name| find(name).map(|(_, text)| (*text).to_owned()))
    }

    fn given(variables: &[(&str, &str)]) -> Settings {
        read(variables).unwrap().expect("something is to be sent")
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn nothing_is_sent_without_an_endpoint_or_where_a_variable_says_so() {
        assert!(read(&[]).unwrap().is_none());
        assert!(
            read(&[("OTEL_SERVICE_NAME", "a"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b")]).unwrap().is_none()
        );
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap().is_none());
        assert!(read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        let both_off = [ENDPOINT, ("OTEL_METRICS_EXPORTER", "none"), ("OTEL_TRACES_EXPORTER", "none")];
        assert!(read(&both_off).unwrap().is_none());
        let settings = given(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]);
        assert!(settings.metrics.is_some() && settings.traces.is_none());
        let settings = given(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "console, otlp")]);
        assert!(settings.metrics.is_some() && settings.traces.is_some());
        let settings = given(&[ENDPOINT, ("OTEL_TRACES_SAMPLER", "always_off")]);
        assert!(settings.metrics.is_some() && settings.traces.is_none());
    }

    #[test]
    fn a_signal_goes_below_the_endpoint_or_to_its_own_as_it_is_written() {
        let settings = given(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/tenant/"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/traces"),
        ]);
        let target = |signal: &Option<Signal>| signal.as_ref().unwrap().address().clone();
        let metrics = WebAddress::parse("http://collector:4318/tenant/v1/metrics").unwrap();
        assert_eq!(target(&settings.metrics), metrics);
        assert_eq!(target(&settings.traces), WebAddress::parse("https://other/traces").unwrap());
        let settings = given(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://collector:4318")]);
        assert!(settings.traces.is_none(), "no variable says where they go");
    }

    #[test]
    fn what_is_not_written_is_the_default() {
        let settings = given(&[ENDPOINT]);
        assert_eq!((settings.interval, settings.sampled), (Duration::from_secs(15), 1.0));
        assert!(settings.attributes.is_empty());
        let settings = given(&[
            ENDPOINT,
            ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod%2C eu, service.name=a,"),
            ("OTEL_SERVICE_NAME", "b"),
        ]);
        assert_eq!((settings.interval, settings.sampled), (Duration::from_secs(60), 0.25));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let environment = pair("deployment.environment.name", "prod, eu");
        assert_eq!(
            settings.attributes,
            [environment, pair("service.name", "a"), pair("service.name", "b")],
            "the last of a name counts"
        );
    }

    #[test]
    fn no_complaint_and_nothing_that_is_printed_shows_a_header() {
        for (list, says) in [
            ("api-key=hunter2,hunter3", "entry 2 of OTEL_EXPORTER_OTLP_HEADERS has no ="),
            ("a b=hunter2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a name"),
            ("content-length=hunter2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a name"),
            ("a=hunter2%0A", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has a value"),
            ("a=hunter2%FF", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS is no UTF-8"),
            ("=hunter2", "entry 1 of OTEL_EXPORTER_OTLP_HEADERS has no key"),
        ] {
            let error = read(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", list)]).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains(says) && !text.contains("hunter"), "{list}: {text}");
        }
        let settings = given(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/hunter2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20hunter2"),
        ]);
        assert!(!format!("{settings:?}").contains("hunter"), "{settings:?}");
    }

    #[test]
    fn what_cannot_be_used_is_named_with_what_would_be_right() {
        for (name, value, says) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http://"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:b@collector", "password"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "is 'grpc'; write http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "0", "milliseconds from 1 to"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "gzip or none"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem", "no certificate"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "15s", "milliseconds from 1000"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "always_on"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a", "entry 1"),
        ] {
            // The first of a name counts.
            let error = read(&[(name, value), ENDPOINT]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(says), "{text}");
            assert_eq!(error.blame(), fleet::Blame::Config, "{text}");
        }
        let missing = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem");
        let error = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector"), missing]).unwrap_err();
        assert!(error.to_string().starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE: /nowhere/ca.pem"), "{error}");
    }
}
