//! `[webhook]`: who is told of incidents.

use super::PasswordFrom;
use super::section::Section;
use std::path::PathBuf;

/// Who is told of incidents, by POST with JSON. `Debug` shows no address: it may hold a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    /// Where its address is to be found.
    pub url: PasswordFrom,
    /// Authorities that may vouch for it; those that the web trusts by default.
    pub ca: Option<PathBuf>,
}

/// Reads `[webhook]`.
pub(super) fn read(document: &mut Section<'_>) -> Option<Webhook> {
    let mut section = document.section("webhook");
    let keys = ["url_file", "url_env", "url"];
    let url = PasswordFrom::read(&mut section, keys, "the address of the webhook");
    let ca = section.path("ca");
    if ca.is_some() && url.is_none() {
        let right = "write url_file = \"/path/to/file\"";
        section.complain("ca", "ca has no use without an address", right);
    }
    section.finish();
    Some(Webhook { url: url?, ca })
}
