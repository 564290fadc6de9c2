// Package docs holds the pages that the programs show themselves: at /problems/{code}, and as towline help. A page is written
// once, so what is read offline is what stands here. It knows nobody.
package docs

import _ "embed" // of the pages

// CrashWindows is CRASH_WINDOWS.md: who recovers in each crash window, how late at the latest, and what an operator sees.
//
//go:embed CRASH_WINDOWS.md
var CrashWindows string
