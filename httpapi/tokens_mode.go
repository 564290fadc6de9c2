package httpapi

import "runtime"

// fileModesAreVague: the system has no modes that say who may read a file.
const fileModesAreVague = runtime.GOOS == "windows"
