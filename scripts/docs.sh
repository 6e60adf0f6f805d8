#!/bin/sh
# Makes the site in target/docs/site from the pages of this repository, with search. Pages link to each other
# as files of the repository, so they keep their places; docs/SUMMARY.md gives the order, and all decisions
# follow theirs. Ends with where to open it.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PWD/target/rust/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
folder=$PWD/target/docs

main() {
    sh scripts/cargo-tool.sh mdbook
    rm -rf "$folder"
    mkdir -p "$folder/src"
    # What pages show or link to, too; raw data of benchmarks by its summaries alone.
    git ls-files -c -o --exclude-standard '*.md' 'docs/*' 'packaging/systemd/*' headroom.example.toml \
        headroom.schema.json deny.toml |
        while read -r file; do
            [ -e "$file" ] || continue
            mkdir -p "$folder/src/$(dirname "$file")"
            cp "$file" "$folder/src/$file"
        done
    summary >"$folder/src/SUMMARY.md"
    cp docs/book.toml "$folder/book.toml"
    mdbook build "$folder" --dest-dir "$folder/site"
    echo "docs: open $folder/site/index.html"
}

# From the top of the repository. Runs stand below the page that tells of them, decisions below their list.
summary() {
    sed -E 's#\]\((guide|decisions|examples)/#](docs/\1/#; s#\]\(\.\./#](#' docs/SUMMARY.md |
        while IFS= read -r line; do
            printf '%s\n' "$line"
            case $line in
                *'(benchmarks/README.md)') entries "$line" benchmarks/runs/*/*/summary.md ;;
                *'(docs/decisions/README.md)') entries "$line" docs/decisions/0*.md ;;
            esac
        done
}

# entries <the line of their list> <page>...: one step further in.
entries() {
    indent=$(printf '%s' "$1" | sed 's/-.*//')
    shift
    for page in "$@"; do
        printf '%s  - [%s](%s)\n' "$indent" "$(title "$page")" "$page"
    done
}

title() { sed -n 's/^# *//p' "$1" | head -n 1 | tr -d '[]'; }

main "$@"
