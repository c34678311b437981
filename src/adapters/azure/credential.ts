import type { TokenCredential } from "@azure/identity";

/** The app's managed identity in Azure, whoever is signed in elsewhere. */
export async function azureCredential(clientId?: string): Promise<TokenCredential> {
  const { DefaultAzureCredential } = await import("@azure/identity");
  return new DefaultAzureCredential(clientId === undefined ? {} : { managedIdentityClientId: clientId });
}
