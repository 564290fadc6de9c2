package sim_test

import "flag"

var (
	all     = flag.Bool("all", false, "enumerate every window where the usual run takes a sample; it takes minutes")
	rewrite = flag.Bool("rewrite", false, "write the golden files anew; read the diff")
	mutants = flag.Bool("mutants", false, "run the harness on one-line bugs, each of which it must find; it takes about two minutes")
	seed    = flag.Uint64("seed", 0, "of ids and of who moves next; 0: that of the golden files")
	second  = flag.Int("second", 0, "of the crashes during a recovery, only those at this boundary; 0: all")
	window  = flag.Int("window", 0, "enumerate only the crash at this boundary; 0: all")
)
