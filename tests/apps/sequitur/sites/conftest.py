from tests.stores.sites.conftest import everywhere, second_broker, sites

__all__ = ["everywhere", "second_broker", "sites"]
