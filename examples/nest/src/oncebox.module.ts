import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from "@nestjs/common";
import { type App, type AppDefinition, createApp } from "oncebox";

export const ONCEBOX = Symbol("the app of oncebox");

/** The app for the providers. It runs until the server shuts down. */
@Module({})
export class OnceboxModule implements OnApplicationShutdown {
  constructor(@Inject(ONCEBOX) private readonly app: App) {}

  static forRoot(definition: AppDefinition): DynamicModule {
    const started = async (): Promise<App> => {
      const app = await createApp(definition);
      await app.migrate(); // in a project of your own, when you deploy
      await app.start();
      return app;
    };
    const providers = [{ provide: ONCEBOX, useFactory: started }];
    return { module: OnceboxModule, global: true, providers, exports: [ONCEBOX] };
  }

  onApplicationShutdown(): Promise<void> {
    return this.app.close();
  }
}
