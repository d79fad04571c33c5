"""What every process needs, once: settings, broker, delivery harness, relay, health, metrics, logs."""
