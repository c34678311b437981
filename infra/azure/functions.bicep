// The function app on Flex Consumption. Its settings hold names, never secrets.
param name string
param location string
param tags object
param identityId string
param clientId string
param storageName string
param deploymentContainerUrl string
param wakeUpQueue string
param incomingQueue string
param vaultUrl string
param sqlServer string
param sqlDatabase string
param applicationInsightsConnectionString string
param maximumInstanceCount int
param instanceMemoryMB int
param alwaysReadyCount int
param reapMinutes int
param subnetId string
param service bool
param admin bool

// With service: one token on each line of the secret, so that two are valid during a rotation.
var serviceSettings = {
  INBOX_SERVICE_TOKENS: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"inbox-service-tokens"}'
}
// With admin: one token on each line of the secret, each name:secret.
var adminSettings = {
  ONCEBOX_ADMIN_TOKENS: '{"from":"azure-key-vault","vault":"${vaultUrl}","name":"admin-tokens"}'
}
var settings = {
  AzureWebJobsStorage__accountName: storageName
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: clientId
  AZURE_CLIENT_ID: clientId
  APPLICATIONINSIGHTS_CONNECTION_STRING: applicationInsightsConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${clientId};Authorization=AAD'
  ONCEBOX_DATABASE_URL: 'Server=tcp:${sqlServer},1433;Database=${sqlDatabase};Authentication=Active Directory Integrated;Client Id=${clientId};Encrypt=true'
  ONCEBOX_WAKE_QUEUE: wakeUpQueue
  ONCEBOX_CONSUME_QUEUE: incomingQueue
  ONCEBOX_REAP_SCHEDULE: '35 */${reapMinutes} * * * *' // half a minute from the dispatcher's
  ONCEBOX_WEBHOOKS: '{"stripe":{"scheme":"stripe","secrets":[{"from":"azure-key-vault","vault":"${vaultUrl}","name":"stripe-webhook-secret"}]}}'
  KEY_VAULT_URL: vaultUrl // for an app of yours that keeps its catalogue of tenants, or other secrets, there
  ONCEBOX_LOG_LEVEL: 'info' // the alerts read lines of this level
}

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: 'plan-${name}'
  location: location
  tags: tags
  kind: 'functionapp'
  sku: { tier: 'FlexConsumption', name: 'FC1' }
  properties: { reserved: true }
}

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: name
  location: location
  tags: union(tags, { 'azd-service-name': 'functions' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${identityId}': {} }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    siteConfig: { minTlsVersion: '1.2' }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: deploymentContainerUrl
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      runtime: { name: 'node', version: '22' }
      scaleAndConcurrency: {
        maximumInstanceCount: maximumInstanceCount
        instanceMemoryMB: instanceMemoryMB
        alwaysReady: alwaysReadyCount == 0 ? [] : [{ name: 'http', instanceCount: alwaysReadyCount }]
      }
    }
  }
}

resource appSettings 'Microsoft.Web/sites/config@2024-04-01' = {
  parent: app
  name: 'appsettings'
  properties: union(settings, service ? serviceSettings : {}, admin ? adminSettings : {})
}

// Deployments sign in with Entra; passwords are off.
resource noBasicAuth 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-04-01' = [
  for way in ['scm', 'ftp']: {
    parent: app
    name: way
    properties: { allow: false }
  }
]

output name string = app.name
output hostName string = app.properties.defaultHostName
