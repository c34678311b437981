// Azure SQL without passwords: Entra alone. What the functions may do is in infra/sql/users-sqlserver.sql, which the
// administrator runs once.
param serverName string
param databaseName string
param skuName string
param autoPauseMinutes int
param location string
param tags object
param administratorName string
param administratorId string
param administratorType string
param privateNetworking bool

resource server 'Microsoft.Sql/servers@2023-08-01' = {
  name: serverName
  location: location
  tags: tags
  properties: {
    version: '12.0'
    minimalTlsVersion: '1.2'
    publicNetworkAccess: privateNetworking ? 'Disabled' : 'Enabled'
    administrators: {
      administratorType: 'ActiveDirectory'
      azureADOnlyAuthentication: true
      login: administratorName
      sid: administratorId
      principalType: administratorType
      tenantId: subscription().tenantId
    }
  }
}

// Only the serverless tier (GP_S_…) pauses. A call that finds it paused waits until it has resumed.
resource database 'Microsoft.Sql/servers/databases@2023-08-01' = {
  parent: server
  name: databaseName
  location: location
  tags: tags
  sku: { name: skuName }
  properties: {
    autoPauseDelay: startsWith(skuName, 'GP_S_') ? autoPauseMinutes : null
    requestedBackupStorageRedundancy: 'Local'
  }
}

// 0.0.0.0 stands for Azure's own addresses. They still have to sign in.
resource azureMayConnect 'Microsoft.Sql/servers/firewallRules@2023-08-01' = if (!privateNetworking) {
  parent: server
  name: 'azure'
  properties: { startIpAddress: '0.0.0.0', endIpAddress: '0.0.0.0' }
}

output serverId string = server.id
output server string = server.properties.fullyQualifiedDomainName
output database string = database.name
