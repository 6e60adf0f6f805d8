//! Writes what `monitoring` makes into the repository: `cargo run -p monitoring`.

use anyhow::Context;
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for document in monitoring::documents() {
        let path = root.join(document.path);
        let folder = path.parent().context("a document stands in a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(&path, document.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    monitoring::guide::write(&root)
}
