import { transportContract } from "../../contract/transport-contract.js";
import { inProcessHarness, networkHarness } from "../../support/transport-harness.js";

for (const scheme of ["http", "https", "unix", "grpc", "grpcs"] as const) {
  transportContract(networkHarness(scheme));
}
transportContract(inProcessHarness);
