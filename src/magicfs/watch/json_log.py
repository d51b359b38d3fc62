def start(): pass
