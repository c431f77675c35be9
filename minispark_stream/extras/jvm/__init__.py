"""The only folder of the extras with py4j.

    kafka          the connector
    kafka_clients  Kafka's own clients, for the continuous engine
"""
