# C source without comments and without the contents of strings, line by line, so that checks see code alone.
# An #include line stays as it is. Sets `code` for each line; other awk programs are put behind this one.
function strip(line,    out, i, c, two, n)
{
    out = ""
    n = length(line)
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; i++ }
        } else if (two == "/*") {
            in_comment = 1
            i++
        } else if (two == "//") {
            break
        } else if (c == "\"" || c == "'") {
            out = out c
            for (i++; i <= n && substr(line, i, 1) != c; i++)
                if (substr(line, i, 1) == "\\") i++
            out = out c
        } else {
            out = out c
        }
    }
    return out
}
FNR == 1 { in_comment = 0 }
{ code = (!in_comment && /^#include/) ? $0 : strip($0) }
