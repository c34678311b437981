// Azure: a resource group with the function app and all that it needs. `azd up`, or docs/deploy-azure.md step by step.
targetScope = 'subscription'

@minLength(2)
@maxLength(20)
@description('The app, in lower-case letters, digits and hyphens. Part of every name, so that two in one subscription are apart.')
param applicationName string = 'oncebox'

@minLength(2)
@maxLength(20)
@description('The environment: dev, prod. Part of every name.')
param environmentName string

@description('The region, which must have Flex Consumption.')
param location string

@description('The administrator of the database: the name of an Entra user or, better, group.')
param sqlAdministratorName string

@description('The object id of that user or group.')
param sqlAdministratorId string

@allowed(['User', 'Group', 'Application'])
param sqlAdministratorType string = 'Group'

@description('The address that gets the alerts. Empty: no email is sent.')
param alertEmail string = ''

@description('Database, vault and storage are reached by private endpoints alone.')
param privateNetworking bool = false

@description('Connections to the database at most: this times 10, the pool of one instance.')
@minValue(40)
@maxValue(1000)
param maximumInstanceCount int = 40

@allowed([512, 2048, 4096])
param instanceMemoryMB int = 512

@description('Instances that are always ready for webhooks, so that no sender waits for a cold start. They cost by the hour.')
@minValue(0)
@maxValue(20)
param alwaysReadyCount int = 0

@description('The size of the database: S0, S1 … by DTU, GP_Gen5_2 … by cores, GP_S_Gen5_2 … by cores in use.')
param databaseSku string = 'S0'

@description('A serverless database (GP_S_…) pauses after so many minutes without a session; -1 for never. It can only pause when no timer polls it meanwhile: docs/deploy-azure.md has the schedules for it.')
param databaseAutoPauseMinutes int = -1

@description('Between two reaps. With thousands of tenants 10: docs/scale.md has the cost of each value.')
@allowed([1, 5, 10, 15, 30])
param reapMinutes int = 1

@description('The inbox as a service, /v1/inbox: its token secret and its alerts. The app must define the service.')
param service bool = false

@description('The diagnostics API and the admin page, /_oncebox: its token secret and its alerts. The app must define admin.')
param admin bool = false

@description('A message that has been due for longer raises an alert.')
param oldestAgeMs int = 300000

param logRetentionDays int = 30

var tags = { 'azd-env-name': environmentName }
var name = '${applicationName}-${environmentName}'
var suffix = uniqueString(subscription().id, applicationName, environmentName, location)

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: 'rg-${name}'
  location: location
  tags: tags
}

module identity 'identity.bicep' = {
  name: 'identity'
  scope: group
  params: { name: 'id-${name}', location: location, tags: tags }
}

module network 'network.bicep' = if (privateNetworking) {
  name: 'network'
  scope: group
  params: { name: 'vnet-${name}', location: location, tags: tags }
}

module monitoring 'monitoring.bicep' = {
  name: 'monitoring'
  scope: group
  params: {
    name: name
    location: location
    tags: tags
    principalId: identity.outputs.principalId
    retentionDays: logRetentionDays
  }
}

module storage 'storage.bicep' = {
  name: 'storage'
  scope: group
  params: {
    name: 'st${suffix}'
    location: location
    tags: tags
    principalId: identity.outputs.principalId
    privateNetworking: privateNetworking
  }
}

module vault 'key-vault.bicep' = {
  name: 'vault'
  scope: group
  params: {
    name: 'kv-${suffix}'
    location: location
    tags: tags
    principalId: identity.outputs.principalId
    privateNetworking: privateNetworking
  }
}

module database 'database.bicep' = {
  name: 'database'
  scope: group
  params: {
    serverName: 'sql-${applicationName}-${suffix}'
    databaseName: 'oncebox'
    skuName: databaseSku
    autoPauseMinutes: databaseAutoPauseMinutes
    location: location
    tags: tags
    administratorName: sqlAdministratorName
    administratorId: sqlAdministratorId
    administratorType: sqlAdministratorType
    privateNetworking: privateNetworking
  }
}

module endpoints 'private-endpoints.bicep' = if (privateNetworking) {
  name: 'endpoints'
  scope: group
  params: {
    location: location
    tags: tags
    networkId: network!.outputs.id
    subnetId: network!.outputs.endpointsSubnetId
    storageId: storage.outputs.id
    vaultId: vault.outputs.id
    sqlServerId: database.outputs.serverId
  }
}

module functions 'functions.bicep' = {
  name: 'functions'
  scope: group
  params: {
    name: 'func-${applicationName}-${suffix}'
    location: location
    tags: tags
    identityId: identity.outputs.id
    clientId: identity.outputs.clientId
    storageName: storage.outputs.name
    deploymentContainerUrl: storage.outputs.deploymentContainerUrl
    wakeUpQueue: storage.outputs.wakeUpQueue
    incomingQueue: storage.outputs.incomingQueue
    vaultUrl: vault.outputs.url
    sqlServer: database.outputs.server
    sqlDatabase: database.outputs.database
    applicationInsightsConnectionString: monitoring.outputs.connectionString
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    alwaysReadyCount: alwaysReadyCount
    reapMinutes: reapMinutes
    subnetId: privateNetworking ? network!.outputs.functionsSubnetId : ''
    service: service
    admin: admin
  }
}

module alerts 'alerts.bicep' = {
  name: 'alerts'
  scope: group
  params: {
    name: name
    location: location
    tags: tags
    applicationInsightsId: monitoring.outputs.id
    email: alertEmail
    oldestAgeMs: oldestAgeMs
    reapMinutes: reapMinutes
    maximumInstanceCount: maximumInstanceCount
    service: service
    admin: admin
  }
}

output AZURE_RESOURCE_GROUP string = group.name
output AZURE_FUNCTION_APP string = functions.outputs.name
output AZURE_KEY_VAULT string = vault.outputs.name
output SQL_SERVER string = database.outputs.server
output SQL_DATABASE string = database.outputs.database
output FUNCTIONS_IDENTITY string = identity.outputs.name
output WEBHOOK_URL string = 'https://${functions.outputs.hostName}/webhooks/stripe'
