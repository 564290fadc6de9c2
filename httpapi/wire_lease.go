package httpapi

type claimInput struct {
	ID   string `path:"id" doc:"ULID, unit/ULID, alias, or at least six characters of the end of the ULID"`
	Body Claim
}

type leaseOutput struct{ Body Lease }

type claimAnyInput struct{ Body ClaimAny }

type leasesOutput struct {
	Status int
	Body   *Leases
}

type renewInput struct {
	Token string `header:"Lease-Token" required:"true"`
	Body  Renew
}

type renewedOutput struct{ Body Renewed }

type completeInput struct {
	Token string `header:"Lease-Token" required:"true"`
	Body  Complete
}

type failInput struct {
	Token string `header:"Lease-Token" required:"true"`
	Body  Fail
}

type releaseInput struct {
	Token string `header:"Lease-Token" required:"true"`
	Body  Release
}

type settledOutput struct{ Body Settled }
