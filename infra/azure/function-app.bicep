// One function app on Flex Consumption, which has one app for each plan. It runs one group of the app's functions, with an
// identity of its own. Its settings hold names, never secrets.
@description('webhook, work, service, admin, messaging or migrate: ONCEBOX_FUNCTIONS, and the name of the service in azure.yaml.')
param group string
param name string
param location string
param tags object
param identityId string
param clientId string
param principalId string
param hostStorageName string
param deploymentsName string
param applicationInsightsName string
param settings object
param maximumInstanceCount int
param instanceMemoryMB int
param alwaysReadyCount int
param updateStrategy string
param subnetId string
param privateNetworking bool
param keepDeploymentRights bool
@description('The id of the Front Door that alone may send requests. Empty: anybody may.')
param frontDoorId string

var roles = {
  blobOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b' // Storage Blob Data Owner
  blobReader: '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1' // Storage Blob Data Reader
  blobContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe' // Storage Blob Data Contributor
  metricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb' // Monitoring Metrics Publisher
}
// A deployment uploads the archive as the app's own identity. Between deployments the identity may only read it, so that
// code in the app cannot replace it: hooks.mjs gives the right to write before a deployment, and takes it back.
var deploymentRole = keepDeploymentRights ? roles.blobContributor : roles.blobReader

// Every app has an account for its host: locks and function keys. So no app can change another's.
resource hostStorage 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: hostStorageName
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' } // it holds no message: what is lost here costs a minute
  properties: {
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: privateNetworking ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: privateNetworking ? 'Deny' : 'Allow'
    }
  }
}

resource mayHost 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(hostStorage.id, principalId, roles.blobOwner)
  scope: hostStorage
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.blobOwner)
  }
}

resource deployments 'Microsoft.Storage/storageAccounts@2024-01-01' existing = {
  name: deploymentsName
}

resource deploymentBlobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' existing = {
  parent: deployments
  name: 'default'
}

resource archive 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: deploymentBlobs
  name: group
}

resource mayReadArchive 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(archive.id, principalId, deploymentRole)
  scope: archive
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', deploymentRole)
  }
}

resource applicationInsights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

resource mayPublish 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(applicationInsights.id, principalId, roles.metricsPublisher)
  scope: applicationInsights
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.metricsPublisher)
  }
}

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: 'plan-${name}'
  location: location
  tags: tags
  kind: 'functionapp'
  sku: { tier: 'FlexConsumption', name: 'FC1' }
  properties: { reserved: true }
}

var fromFrontDoor = [
  {
    name: 'front-door'
    action: 'Allow'
    priority: 100
    tag: 'ServiceTag'
    ipAddress: 'AzureFrontDoor.Backend'
    headers: { 'x-azure-fdid': [frontDoorId] }
  }
]

resource app 'Microsoft.Web/sites@2025-05-01' = {
  name: name
  location: location
  tags: union(tags, { 'azd-service-name': group })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${identityId}': {} }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    siteConfig: {
      minTlsVersion: '1.2'
      ipSecurityRestrictionsDefaultAction: empty(frontDoorId) ? 'Allow' : 'Deny'
      ipSecurityRestrictions: empty(frontDoorId) ? [] : fromFrontDoor
      scmIpSecurityRestrictionsUseMain: false // deployments do not come through Front Door
    }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${deployments.properties.primaryEndpoints.blob}${archive.name}'
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
      siteUpdateStrategy: { type: updateStrategy }
    }
  }
}

resource appSettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: app
  name: 'appsettings'
  properties: union(
    {
      AzureWebJobsStorage__accountName: hostStorage.name
      AzureWebJobsStorage__credential: 'managedidentity'
      AzureWebJobsStorage__clientId: clientId
      AzureWebJobsFeatureFlags: 'DisableDiagnosticEventLogging' // it would need tables
      AZURE_CLIENT_ID: clientId
      APPLICATIONINSIGHTS_CONNECTION_STRING: applicationInsights.properties.ConnectionString
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${clientId};Authorization=AAD'
      ONCEBOX_FUNCTIONS: group
      ONCEBOX_LOG_LEVEL: 'info' // the alerts read lines of this level
    },
    settings
  )
}

// Deployments sign in with Entra; passwords are off.
resource noBasicAuth 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = [
  for way in ['scm', 'ftp']: {
    parent: app
    name: way
    properties: { allow: false }
  }
]

output name string = app.name
output hostName string = app.properties.defaultHostName
output hostStorageId string = hostStorage.id
output deploymentRights string = keepDeploymentRights ? '' : '${archive.id}=${principalId}'
