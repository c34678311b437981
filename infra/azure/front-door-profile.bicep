// Only with clientRequestsPerMinute. Apart from front-door.bicep, because the function app needs its id, and it the app's name.
param name string
param tags object

resource profile 'Microsoft.Cdn/profiles@2024-09-01' = {
  name: 'afd-${name}'
  location: 'global'
  tags: tags
  sku: { name: 'Standard_AzureFrontDoor' }
  properties: { originResponseTimeoutSeconds: 60 }
}

output name string = profile.name
output frontDoorId string = profile.properties.frontDoorId
