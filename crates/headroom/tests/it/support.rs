//! What the tests share: routers and agents as child processes, a browser, a receiver of webhooks.

pub(crate) mod agent;
pub(crate) mod browser;
pub(crate) mod bypass;
pub(crate) mod connecting;
pub(crate) mod convoy;
pub(crate) mod driven;
pub(crate) mod going_on;
pub(crate) mod one_server;
pub(crate) mod receiving;
pub(crate) mod route;
pub(crate) mod secrets;
pub(crate) mod small_disk;
pub(crate) mod ten_thousand;
pub(crate) mod time;
pub(crate) mod told;
pub(crate) mod watched;
