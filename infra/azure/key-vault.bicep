// Webhook secrets and tokens. An identity may read single secrets, each by name. Grant the permission to write by hand.
param name string
param location string
param tags object
@description('Made disabled, with a random text that nobody knows, unless they exist. Until one is set, its readers answer 503.')
param secretNames string[]
@description('Who may read which: [{ secret: name, principalId: id }].')
param grants { secret: string, principalId: string }[]
param workspaceId string
param privateNetworking bool
param purgeProtection bool
param recover bool
@secure()
param placeholder string = newGuid()

var keyVaultSecretsUser = '4633458b-17de-408a-b874-0445c86b69e6'

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    createMode: recover ? 'recover' : 'default'
    tenantId: subscription().tenantId
    sku: { family: 'A', name: 'standard' }
    enableRbacAuthorization: true
    enableSoftDelete: true
    enablePurgeProtection: purgeProtection ? true : null // the service refuses false
    publicNetworkAccess: privateNetworking ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: privateNetworking ? 'Deny' : 'Allow'
    }
  }
}

// A role can be given on a secret that exists. A later deployment leaves the secret's value alone.
@onlyIfNotExists()
resource secrets 'Microsoft.KeyVault/vaults/secrets@2023-07-01' = [
  for secret in secretNames: {
    parent: vault
    name: secret
    properties: {
      value: placeholder
      attributes: { enabled: false }
    }
  }
]

resource granted 'Microsoft.KeyVault/vaults/secrets@2023-07-01' existing = [
  for grant in grants: {
    parent: vault
    name: grant.secret
  }
]

resource mayRead 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (grant, index) in grants: {
    name: guid(vault.id, grant.secret, grant.principalId, keyVaultSecretsUser)
    scope: granted[index]
    properties: {
      principalId: grant.principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', keyVaultSecretsUser)
    }
    dependsOn: [secrets]
  }
]

// Who read or wrote which secret, and who tried to.
resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'audit'
  scope: vault
  properties: {
    workspaceId: workspaceId
    logs: [{ categoryGroup: 'audit', enabled: true }]
  }
}

output id string = vault.id
output name string = vault.name
output url string = vault.properties.vaultUri
