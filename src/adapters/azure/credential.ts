import type { TokenCredential } from "@azure/identity";
import { defined } from "../../base/defined.js";

/** The app's managed identity in Azure. On another machine, the developer's login. */
export async function azureCredential(clientId?: string): Promise<TokenCredential> {
  const { DefaultAzureCredential } = await import("@azure/identity");
  return new DefaultAzureCredential(defined({ managedIdentityClientId: clientId }));
}
