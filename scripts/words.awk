# The English of comments, messages and pages: their width, and phrases that this project does not use.
#
#   LC_ALL=C awk -f scripts/words.awk FILE...      (scripts/lint.sh words names the files)
#
# Prints "file:line: what is wrong" for each finding; exit code 1 if there is any.
#
# Width: 110 columns for Markdown and for comments; rustfmt sees to the code. Free are tables, code blocks, and what
# only a link's address makes longer. A phrase is looked for in everything, not only in comments, and across the end of
# a line: its last two words are read once more with the next one.

BEGIN {
    widest = 110
    n = 0
    # Words in lower case with one space between them; what to write instead.
    phrase[++n] = "(hold|holds|holding|held) ((a|an|the|this|that|its|our) [a-z]+ |it |them |us |nobody |everybody )?up"; instead[n] = "is the bottleneck, slows down"
    phrase[++n] = "(go|goes|going|went|gone) past"; instead[n] = "bypasses"
    phrase[++n] = "(look|see) and not touch"; instead[n] = "read-only"
    phrase[++n] = "the one of before"; instead[n] = "the previous"
    phrase[++n] = "so (many|long)"; instead[n] = "how many, a number of, for the time"
    phrase[++n] = "of (whom|which)"; instead[n] = "whose, or two sentences"
    phrase[++n] = "(be|been) had"; instead[n] = "is available"
    phrase[++n] = "(is|are|was|were|be|been) gone"; instead[n] = "ended, closed, dead, removed"
    phrase[++n] = "besides"; instead[n] = "also"
    phrase[++n] = "as ever"; instead[n] = "(nothing)"
    phrase[++n] = "is well"; instead[n] = "is healthy"
    phrase[++n] = "(a|an|the|every) (told|said|heard)"; instead[n] = "a noun: answer, outcome, event"
    for (i = 1; i <= n; i++) any_phrase = any_phrase "|" phrase[i]
    any_phrase = " (" substr(any_phrase, 2) ") "
}

FNR == 1 { code = 0; tail = "" }

{
    markdown = FILENAME ~ /\.md$/
    if (markdown && /^ *(```|~~~)/ || /^ *\/\/[\/!] *```/) { code = !code; tail = ""; next }
    if (width() > widest && too_wide()) found("wider than " widest " columns")
    phrases()
}

END { exit bad }

# Characters, not bytes: what continues one in UTF-8 does not count.
function width(  rest) {
    rest = $0
    return length($0) - gsub(/[\200-\277]/, "", rest)
}

function too_wide(  text) {
    if (code || /^[ \/!#*]*\|/) return 0
    if (!markdown && !comment()) return 0
    text = $0
    gsub(/\]\([^)]*\)/, "]", text)
    gsub(/https?:[^ )>]*/, "", text)
    $0 = text
    return width() > widest
}

# A comment from the line's start, or after code that holds no quote.
function comment() {
    if (FILENAME ~ /\.(rs|c|h|js|css)$/) return /^[^"'`]*(\/\/|\/\*)/ || /^ *\* /
    # What `make help` shows of a target is one line.
    return /^([^"']*[ \t])?# / && !/^[a-z-]+:.*##/
}

function phrases(  words, word, text, i) {
    words = tolower($0)
    # A link's address is no sentence, nor is an identifier. No phrase goes over a comma.
    gsub(/\]\([^)]*\)/, "]", words)
    gsub(/[,.;:(){}]/, " , ", words)
    gsub(/[^a-z0-9_,]+/, " ", words)
    gsub(/^ | $/, "", words)
    text = " " tail words " "
    for (i = 1; i <= n && text ~ any_phrase; i++)
        if (match(text, " " phrase[i] " ") && RSTART + RLENGTH - 2 > length(tail))
            found("\"" substr(text, RSTART + 1, RLENGTH - 2) "\": " instead[i])
    i = split(words, word, " ")
    tail = i < 2 ? "" : word[i - 1] " " word[i] " "
}

function found(what) {
    print FILENAME ":" FNR ": " what
    bad = 1
}
