// Private endpoints of the services that the functions call: an address in the network and a name in a private zone each.
param location string
param tags object
param networkId string
param subnetId string
param storageId string
param vaultId string
param sqlServerId string

var storageSuffix = environment().suffixes.storage
var targets = [
  { name: 'blob', resourceId: storageId, zone: 'privatelink.blob.${storageSuffix}' }
  { name: 'queue', resourceId: storageId, zone: 'privatelink.queue.${storageSuffix}' }
  { name: 'table', resourceId: storageId, zone: 'privatelink.table.${storageSuffix}' }
  { name: 'vault', resourceId: vaultId, zone: 'privatelink.vaultcore.azure.net' }
  { name: 'sqlServer', resourceId: sqlServerId, zone: 'privatelink${environment().suffixes.sqlServerHostname}' }
]

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for target in targets: {
    name: target.zone
    location: 'global'
    tags: tags
  }
]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (target, index) in targets: {
    parent: zones[index]
    name: 'network'
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: { id: networkId }
    }
  }
]

resource endpoints 'Microsoft.Network/privateEndpoints@2024-05-01' = [
  for target in targets: {
    name: 'pe-${target.name}'
    location: location
    tags: tags
    properties: {
      subnet: { id: subnetId }
      privateLinkServiceConnections: [
        {
          name: target.name
          properties: { privateLinkServiceId: target.resourceId, groupIds: [target.name] }
        }
      ]
    }
  }
]

resource names 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-05-01' = [
  for (target, index) in targets: {
    parent: endpoints[index]
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        { name: target.name, properties: { privateDnsZoneId: zones[index].id } }
      ]
    }
  }
]
