import { Body, Controller, Inject, Injectable, Post } from "@nestjs/common";
import { InjectDataSource } from "@nestjs/typeorm";
import type { App } from "oncebox";
import { fromTypeOrm } from "oncebox/orm";
import { Column, type DataSource, Entity, PrimaryColumn } from "typeorm";
import { ONCEBOX } from "./oncebox.module.js";

@Entity("orders")
export class Order {
  @PrimaryColumn("text")
  id: string;

  @Column("text")
  status: string;
}

@Injectable()
export class OrdersService {
  constructor(
    @InjectDataSource() private readonly dataSource: DataSource,
    @Inject(ONCEBOX) private readonly app: App,
  ) {}

  /** Stores an order and enqueues a message about it: both, or neither. */
  async place(id: string): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      await manager.insert(Order, { id, status: "placed" });
      await this.app.outbox.enqueue({ topic: "order.placed", payload: id }, { tx: fromTypeOrm(manager) });
    });
  }
}

@Controller("orders")
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post()
  place(@Body() body: { id: string }): Promise<void> {
    return this.orders.place(body.id);
  }
}
